//! Bytes in whose order jsonb values are: null, strings, numbers, booleans, arrays, objects.
//!
//! ```text
//!   kind  body
//!   string   bytes, a zero as 00 FF, then 00 00      array    count, then its elements
//!   number   sign, exponent, digits, end             object   count, then keys and values
//! ```
//! Arrays and objects are ordered by their number of parts first. A number is 0.d₁d₂… · 10^exponent
//! without zeros at its end, so that 1.0 is 1; of a negative one the bytes are inverted.

use super::{Json, deeper};

/// The key of a value whose members are in canonical order.
pub fn of(json: &Json) -> Vec<u8> {
    let mut key = Vec::new();
    // An empty array is below everything, at the top alone.
    match json {
        Json::Array(items) if items.is_empty() => key.push(0),
        json => put(json, &mut key),
    }
    key
}

fn put(json: &Json, key: &mut Vec<u8>) {
    match json {
        Json::Null => key.push(1),
        Json::String(text) => {
            key.push(2);
            put_text(text, key);
        }
        Json::Number(text) => {
            key.push(3);
            put_number(text, key);
        }
        Json::Bool(value) => key.extend_from_slice(&[4, u8::from(*value)]),
        Json::Array(items) => {
            key.push(5);
            key.extend_from_slice(&(items.len() as u64).to_be_bytes());
            items.iter().for_each(|item| deeper(|| put(&item.json, key)));
        }
        Json::Object(members) => {
            key.push(6);
            key.extend_from_slice(&(members.len() as u64).to_be_bytes());
            for (name, member) in members {
                put_text(name, key);
                deeper(|| put(&member.json, key));
            }
        }
    }
}

fn put_text(text: &str, key: &mut Vec<u8>) {
    for byte in text.bytes() {
        key.push(byte);
        if byte == 0 {
            key.push(0xFF);
        }
    }
    key.extend_from_slice(&[0, 0]);
}

fn put_number(text: &str, key: &mut Vec<u8>) {
    let negative = text.starts_with('-');
    let body = text.trim_start_matches('-');
    let (whole, fraction) = body.split_once('.').unwrap_or((body, ""));
    let all = format!("{whole}{fraction}");
    let digits = all.trim_start_matches('0');
    let exponent = whole.len() as i64 - (all.len() - digits.len()) as i64;
    let digits = digits.trim_end_matches('0');
    if digits.is_empty() {
        key.push(1);
        return;
    }
    key.push(if negative { 0 } else { 2 });
    let start = key.len();
    key.extend_from_slice(&(exponent ^ i64::MIN).to_be_bytes());
    key.extend_from_slice(digits.as_bytes());
    key.push(0);
    if negative {
        key[start..].iter_mut().for_each(|byte| *byte = !*byte);
    }
}
