//! SET, SHOW and RESET.

use super::*;

pub(super) fn set(cursor: &mut Cursor<'_>) -> Result<Command, ParserError> {
    if cursor.skip("transaction") {
        if cursor.skip("snapshot") {
            return crate::exported::parse(cursor);
        }
        return modes(cursor).map(Command::SetTransaction);
    }
    if cursor.skip("constraints") {
        return set_constraints(cursor);
    }
    let mut local = false;
    if cursor.skip("session") {
        if cursor.skip("characteristics") {
            cursor.expect("as")?;
            cursor.expect("transaction")?;
            return modes(cursor).map(Command::SetCharacteristics);
        }
        if cursor.skip("authorization") {
            return authorization(cursor, false);
        }
    } else {
        local = cursor.skip("local");
        if local
            && cursor.peek_word("session")
            && is_word(cursor.tokens.get(cursor.at + 1), "authorization")
        {
            cursor.at += 2;
            return authorization(cursor, true);
        }
    }
    let after = cursor.tokens.get(cursor.at + 1);
    if cursor.peek_word("role")
        && !is_word(after, "to")
        && after.map(|t| &t.token) != Some(&Token::Eq)
    {
        cursor.at += 1;
        let value = role_value(cursor)?;
        return Ok(Command::Set { local, name: "role".to_owned(), value: Some(value) });
    }
    if cursor.skip("time") {
        cursor.expect("zone")?;
        let value = match () {
            () if cursor.skip("local") => None,
            () if cursor.peek_word("interval") => Some(zone_interval(cursor)?),
            () => setting_value(cursor)?,
        };
        return Ok(Command::Set { local, name: "timezone".to_owned(), value });
    }
    if cursor.skip("names") {
        let value = setting_value(cursor)?;
        return Ok(Command::Set { local, name: "client_encoding".to_owned(), value });
    }
    if cursor.skip("schema") {
        let value = setting_value(cursor)?;
        return Ok(Command::Set { local, name: "search_path".to_owned(), value });
    }
    let name = setting_name(cursor)?;
    if !cursor.skip_token(&Token::Eq) {
        cursor.expect("to")?;
    }
    let value = setting_value(cursor)?;
    Ok(Command::Set { local, name, value })
}

/// After `SET [LOCAL] SESSION AUTHORIZATION`.
pub(super) fn authorization(cursor: &mut Cursor<'_>, local: bool) -> Result<Command, ParserError> {
    let value = if cursor.skip("default") { None } else { Some(role_value(cursor)?) };
    Ok(Command::Set { local, name: "session_authorization".to_owned(), value })
}

/// A role's name as a word or a string.
pub(super) fn role_value(cursor: &mut Cursor<'_>) -> Result<String, ParserError> {
    if let Some(Token::SingleQuotedString(text)) = cursor.peek() {
        let text = text.clone();
        cursor.at += 1;
        return Ok(text);
    }
    cursor.name()
}

pub(crate) fn setting_name(cursor: &mut Cursor<'_>) -> Result<String, ParserError> {
    let mut name = cursor.name()?;
    while cursor.skip_token(&Token::Period) {
        name.push('.');
        name.push_str(&cursor.name()?);
    }
    Ok(name)
}

/// One value or a list of them; `None` for DEFAULT.
pub(crate) fn setting_value(cursor: &mut Cursor<'_>) -> Result<Option<String>, ParserError> {
    if cursor.skip("default") {
        return Ok(None);
    }
    let mut value = String::new();
    loop {
        let minus = cursor.skip_token(&Token::Minus);
        let part = match cursor.peek() {
            Some(Token::Word(w)) => w.value.clone(),
            Some(Token::Number(n, _)) => n.clone(),
            Some(Token::SingleQuotedString(s) | Token::EscapedStringLiteral(s)) => s.clone(),
            _ => return cursor.wrong("a value"),
        };
        cursor.at += 1;
        if minus {
            value.push('-');
        }
        value.push_str(&part);
        if !cursor.skip_token(&Token::Comma) {
            return Ok(Some(value));
        }
        value.push_str(", ");
    }
}

/// `INTERVAL '-08:00' HOUR TO MINUTE` as the hours east of Greenwich.
pub(super) fn zone_interval(cursor: &mut Cursor<'_>) -> Result<String, ParserError> {
    cursor.expect("interval")?;
    let text = match cursor.peek() {
        Some(Token::SingleQuotedString(text)) => text.clone(),
        _ => return cursor.wrong("an interval"),
    };
    let (sign, clock) = match text.trim().split_at_checked(1) {
        Some(("-", clock)) => (-1.0, clock),
        Some(("+", clock)) => (1.0, clock),
        _ => (1.0, text.trim()),
    };
    let parts: Option<Vec<f64>> =
        clock.split(':').map(|part| Some(f64::from(part.parse::<u16>().ok()?))).collect();
    let hours = match parts.as_deref() {
        Some([hours]) => *hours,
        Some([hours, minutes]) => hours + minutes / 60.0,
        Some([hours, minutes, seconds]) => hours + minutes / 60.0 + seconds / 3600.0,
        _ => return cursor.wrong("hours and minutes"),
    };
    cursor.at += 1;
    if cursor.skip("hour") && cursor.skip("to") {
        cursor.expect("minute")?;
    }
    Ok((sign * hours).to_string())
}

pub(super) fn show(cursor: &mut Cursor<'_>) -> Result<Command, ParserError> {
    if cursor.skip("all") {
        return Ok(Command::ShowAll);
    }
    if cursor.skip("time") {
        cursor.expect("zone")?;
        return Ok(Command::Show("timezone".to_owned()));
    }
    if cursor.skip("transaction") {
        cursor.expect("isolation")?;
        cursor.expect("level")?;
        return Ok(Command::Show("transaction_isolation".to_owned()));
    }
    setting_name(cursor).map(Command::Show)
}

pub(super) fn reset(cursor: &mut Cursor<'_>) -> Result<Command, ParserError> {
    if cursor.skip("all") {
        return Ok(Command::ResetAll);
    }
    if cursor.skip("session") {
        cursor.expect("authorization")?;
        return Ok(Command::Reset("session_authorization".to_owned()));
    }
    if cursor.skip("time") {
        cursor.expect("zone")?;
        return Ok(Command::Reset("timezone".to_owned()));
    }
    setting_name(cursor).map(Command::Reset)
}
