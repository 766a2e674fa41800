//! Failures asked for: by the environment, or at run time.

use std::sync::{LazyLock, Mutex};
use std::time::Duration;

use crate::call::Code;

/// `NAME:COUNT:VALUE` or `NAME:COUNT+:VALUE`.
#[derive(Debug, Clone, PartialEq)]
struct Rule {
    name: String,
    first: u64,
    onwards: bool,
    value: u64,
}

impl Rule {
    fn parse(text: &str) -> Option<Rule> {
        let mut parts = text.split(':');
        let (name, count, value) = (parts.next()?, parts.next()?, parts.next()?);
        let rule = Rule {
            name: name.into(),
            first: count.trim_end_matches('+').parse().ok()?,
            onwards: count.ends_with('+'),
            value: value.parse().ok()?,
        };
        parts.next().is_none().then_some(rule)
    }

    fn meets(&self, name: &str, number: u64) -> bool {
        self.name == name && (number == self.first || (self.onwards && number > self.first))
    }
}

struct Rules {
    fail: Vec<Rule>,
    fault: Vec<Rule>,
    slow: Vec<Rule>,
}

static RULES: LazyLock<Mutex<Rules>> = LazyLock::new(|| {
    let rules = |variable: &str| {
        let text = std::env::var(variable).unwrap_or_default();
        parse(&text).unwrap_or_else(|entry| panic!("{variable}: {entry:?} is no NAME:COUNT:VALUE"))
    };
    Mutex::new(Rules {
        fail: rules("FAKECUDA_FAIL"),
        fault: rules("FAKECUDA_FAULT"),
        slow: rules("FAKECUDA_SLOW"),
    })
});

fn parse(text: &str) -> Result<Vec<Rule>, String> {
    (text.split(',').filter(|entry| !entry.is_empty()))
        .map(|entry| Rule::parse(entry).ok_or_else(|| entry.to_owned()))
        .collect()
}

fn value(rules: &[Rule], name: &str, number: u64) -> Option<u64> {
    let rule = rules.iter().find(|rule| rule.meets(name, number))?;
    Some(rule.value)
}

/// Replaces the rules of one kind (`FAIL`, `FAULT` or `SLOW`); whether they could be read.
pub fn replace(kind: &str, text: &str) -> bool {
    let Ok(parsed) = parse(text) else {
        return false;
    };
    let mut rules = RULES.lock().unwrap();
    match kind {
        "FAIL" => rules.fail = parsed,
        "FAULT" => rules.fault = parsed,
        "SLOW" => rules.slow = parsed,
        _ => return false,
    }
    true
}

/// Whether calls of `name` put work on a stream.
fn asynchronous(name: &str) -> bool {
    ["cuMemcpy", "cuMemset", "cuLaunch"]
        .iter()
        .any(|start| name.starts_with(start))
}

/// Delays call `number` of `name` if that was asked for, and says what it shall return if it
/// shall fail.
pub fn call(name: &str, number: u64) -> Option<Code> {
    let (slow, fail) = {
        let rules = RULES.lock().unwrap();
        (
            value(&rules.slow, name, number),
            value(&rules.fail, name, number),
        )
    };
    if let Some(microseconds) = slow.filter(|_| !asynchronous(name)) {
        std::thread::sleep(Duration::from_micros(microseconds));
    }
    fail.map(|code| code as Code)
}

/// What shall become of work on a stream.
#[derive(Debug, Clone, Copy, Default)]
pub struct Fate {
    /// It takes so much longer.
    pub delay: Duration,
    /// It fails.
    pub fault: Option<Code>,
}

/// What shall become of the work of call `number` of `name`.
pub fn work(name: &str, number: u64) -> Fate {
    let rules = RULES.lock().unwrap();
    Fate {
        delay: Duration::from_micros(value(&rules.slow, name, number).unwrap_or(0)),
        fault: value(&rules.fault, name, number).map(|code| code as Code),
    }
}

#[cfg(test)]
mod tests {
    use super::{parse, value};

    #[test]
    fn rules_name_one_call_or_all_from_one_on() {
        let rules = parse("cuMemAlloc:2:2,cuLaunchKernel:3+:700").unwrap();
        let of = |name, number| value(&rules, name, number);
        assert_eq!(of("cuMemAlloc", 1), None);
        assert_eq!(of("cuMemAlloc", 2), Some(2));
        assert_eq!(of("cuMemAlloc", 3), None);
        assert_eq!(of("cuLaunchKernel", 2), None);
        assert_eq!(of("cuLaunchKernel", 9), Some(700));
        assert_eq!(parse("cuInit:1"), Err("cuInit:1".into()));
        assert_eq!(parse(""), Ok(vec![]));
    }
}
