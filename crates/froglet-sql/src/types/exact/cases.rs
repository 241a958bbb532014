//! A table of cases whose results PostgreSQL 15 gave (`cases.txt`), and further ones from a file of the same form
//! that the environment variable EXACT_CASES names.
//!
//! A line is an operation, its arguments and the result, with tabs between: a value's text, NULL, or the error's
//! SQLSTATE, message and detail.

use super::*;

type Answer = Result<Option<String>, NumericError>;

#[test]
fn results_are_those_of_postgresql() {
    check(include_str!("cases.txt"));
    if let Some(path) = std::env::var_os("EXACT_CASES") {
        check(&std::fs::read_to_string(path).expect("the file EXACT_CASES names"));
    }
}

fn check(table: &str) {
    let (mut lines, mut wrong) = (0, Vec::new());
    for line in table.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let mut fields: Vec<&str> = line.split('\t').collect();
        let expected = fields.pop().expect("a line has fields");
        let got = answer_text(answer(fields[0], &fields[1..]));
        if got != expected {
            wrong.push(format!("{}\n  expected {expected}\n  got      {got}", fields.join(" ")));
        }
        lines += 1;
    }
    println!("{lines} cases, {} wrong", wrong.len());
    assert!(wrong.is_empty(), "{} of {lines} cases:\n{}", wrong.len(), wrong.join("\n"));
}

fn answer_text(answer: Answer) -> String {
    match answer {
        Ok(value) => value.unwrap_or_else(|| "NULL".to_owned()),
        Err(error) => {
            let detail = error.detail().map(|detail| format!(" | {detail}")).unwrap_or_default();
            format!("ERROR {} {}{detail}", error.sqlstate(), error.message())
        }
    }
}

fn answer(operation: &str, arguments: &[&str]) -> Answer {
    if let Some(answer) = aggregate_answer(operation, arguments) {
        return answer;
    }
    let value = |at: usize| Exact::parse(arguments[at]);
    let int = |at: usize| arguments[at].parse::<i32>().expect("an integer argument");
    let modifier = |at: usize| Modifier { precision: int(at), scale: int(at + 1) };
    let computed = match operation {
        "parse" => value(0)?,
        "parse_as" => Exact::parse_as(arguments[0], Some(modifier(1)))?,
        "fit" => value(0)?.fit(modifier(1))?,
        "neg" => value(0)?.neg(),
        "abs" => value(0)?.abs(),
        "sign" => value(0)?.sign(),
        "add" => value(0)?.add(&value(1)?)?,
        "sub" => value(0)?.sub(&value(1)?)?,
        "mul" => value(0)?.mul(&value(1)?)?,
        "div" => value(0)?.div(&value(1)?)?,
        "div_trunc" => value(0)?.div_trunc(&value(1)?)?,
        "rem" => value(0)?.rem(&value(1)?)?,
        "round" => value(0)?.round(int(1))?,
        "trunc" => value(0)?.trunc(int(1))?,
        "ceil" => value(0)?.ceil()?,
        "floor" => value(0)?.floor()?,
        "trim_scale" => value(0)?.trim_scale(),
        "sqrt" => value(0)?.sqrt()?,
        "exp" => value(0)?.exp()?,
        "ln" => value(0)?.ln()?,
        "log10" => value(0)?.log10()?,
        "log" => value(1)?.log(&value(0)?)?,
        "power" => value(0)?.power(&value(1)?)?,
        "gcd" => value(0)?.gcd(&value(1)?)?,
        "lcm" => value(0)?.lcm(&value(1)?)?,
        "factorial" => factorial(int(0).into())?,
        "from_float8" => Exact::from_f64(arguments[0].parse().expect("a float")),
        "from_float4" => Exact::from_f32(arguments[0].parse().expect("a float")),
        _ => return other_answer(operation, arguments),
    };
    let read_back = Exact::decode(&computed.encode()).map(|value| value.to_string());
    assert_eq!(read_back, Ok(computed.to_string()));
    Ok(Some(computed.to_string()))
}

/// Operations whose result is no numeric.
fn other_answer(operation: &str, arguments: &[&str]) -> Answer {
    let value = |at: usize| Exact::parse(arguments[at]);
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    Ok(match operation {
        "cmp" => Some((value(0)?.cmp(&value(1)?) as i8).to_string()),
        "scale" => value(0)?.scale().map(|scale| scale.to_string()),
        "min_scale" => value(0)?.min_scale().map(|scale| scale.to_string()),
        "int2" => Some(value(0)?.to_i16()?.to_string()),
        "int4" => Some(value(0)?.to_i32()?.to_string()),
        "int8" => Some(value(0)?.to_i64()?.to_string()),
        "float8" => Some(hex(&value(0)?.to_f64()?.to_be_bytes())),
        "float4" => Some(hex(&value(0)?.to_f32()?.to_be_bytes())),
        "width_bucket" => {
            let count = arguments[3].parse().expect("an integer argument");
            Some(width_bucket(&value(0)?, &value(1)?, &value(2)?, count)?.to_string())
        }
        "send" => {
            let mut bytes = Vec::new();
            value(0)?.write_binary(&mut bytes);
            Some(hex(&bytes))
        }
        _ => panic!("unknown operation {operation}"),
    })
}

/// The values are taken in by two states, one of which has seen others, which are merged.
fn aggregate_answer(operation: &str, arguments: &[&str]) -> Option<Answer> {
    let result = match operation {
        "sum" => |state: &Moments| state.sum.sum(),
        "avg" => |state: &Moments| state.sum.average(),
        "var_pop" => Moments::var_pop,
        "var_samp" => Moments::var_samp,
        "stddev_pop" => Moments::stddev_pop,
        "stddev_samp" => Moments::stddev_samp,
        _ => return None,
    };
    let (mut state, mut other) = (Moments::default(), Moments::default());
    let passing = Exact::from_unscaled(123_456_789, 8);
    other.add(&passing);
    for (n, argument) in arguments.iter().enumerate() {
        match Exact::parse(argument) {
            Ok(value) if n % 2 == 0 => state.add(&value),
            Ok(value) => other.add(&value),
            Err(error) => return Some(Err(error)),
        }
    }
    other.remove(&passing);
    state.merge(&Moments::from_bytes(&other.to_bytes()).expect("a state's bytes"));
    let sum = Sum::from_bytes(&state.sum.to_bytes()).expect("a state's bytes");
    assert_eq!(sum, state.sum);
    Some(result(&state).map(|value| value.map(|value| value.to_string())))
}
