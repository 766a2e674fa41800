//! What the keys do.

use gst::prelude::*;

use crate::wiring::application;

/// Application messages that carry a pressed key.
pub const KEY: &str = "cudaconv-key";

/// One line about every key.
pub const HELP: &str = "keys: k j kernel, + - radius, b backend, p policy, h this line, q end";

/// What a key asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// The next (1) or previous (-1) one.
    Kernel(isize),
    /// Pixels more or less.
    Radius(i32),
    Backend,
    Policy,
    Help,
    End,
}

/// The action of a key; `None` for keys without one.
pub fn action(key: char) -> Option<Action> {
    Some(match key {
        'k' => Action::Kernel(1),
        'j' => Action::Kernel(-1),
        '+' | '=' => Action::Radius(1),
        '-' | '_' => Action::Radius(-1),
        'b' => Action::Backend,
        'p' => Action::Policy,
        'h' | '?' => Action::Help,
        'q' => Action::End,
        other if other.is_ascii_uppercase() => return action(other.to_ascii_lowercase()),
        _ => return None,
    })
}

/// Puts a pressed key on the bus of `pipeline`.
pub fn post(pipeline: &gst::Pipeline, key: char) {
    // A bus that is flushing belongs to a pipeline that has ended.
    let _ = pipeline.post_message(application(KEY, &key.to_string()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_of_the_help_does_something() {
        let keys = HELP.trim_start_matches("keys:").split(',');
        let named: Vec<char> = keys
            .flat_map(|part| part.split_whitespace())
            .filter(|word| word.len() == 1)
            .flat_map(str::chars)
            .collect();
        assert_eq!(named, ['k', 'j', '+', '-', 'b', 'p', 'h', 'q']);
        assert!(named.iter().all(|key| action(*key).is_some()));
        assert_eq!(action('K'), Some(Action::Kernel(1)));
        assert_eq!(action('x'), None);
    }
}
