//! What the driver's compiler would find in PTX: version, target, and the kernels with the size
//! of their parameter.

use crate::call::{Code, code};
use crate::settings::SETTINGS;

/// A kernel and the bytes of its only parameter.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    pub name: String,
    pub parameter_bytes: usize,
}

/// A variable in constant memory, and its bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct Variable {
    pub name: String,
    pub bytes: u64,
}

/// The variables in constant memory of `ptx`: `.const .align 4 .b8 NAME[SIZE]`.
pub fn variables(ptx: &str) -> Vec<Variable> {
    let code = without_comments(ptx);
    let declared = code.split(".const ").skip(1);
    declared
        .filter_map(|text| {
            let declaration = text.split(';').next()?;
            let (name, rest) = declaration.rsplit_once(' ')?.1.split_once('[')?;
            Some(Variable {
                name: name.to_owned(),
                bytes: rest.trim_end_matches(']').parse().ok()?,
            })
        })
        .collect()
}

/// What is wrong with PTX: the code of the call, and a line for its log.
pub type Refusal = (Code, String);

/// The kernels of `ptx`.
///
/// # Errors
/// When it is no PTX, or is for a newer driver or device.
pub fn entries(ptx: &str) -> Result<Vec<Entry>, Refusal> {
    let code = without_comments(ptx);
    let (major, minor) = version(&code).ok_or_else(|| {
        (
            code::INVALID_IMAGE,
            "no .version: this is not PTX".to_owned(),
        )
    })?;
    let known = known_version(SETTINGS.driver_version);
    if (major, minor) > known {
        let log = format!(
            "Unsupported .version {major}.{minor}; current version is '{}.{}'",
            known.0, known.1
        );
        return Err((code::UNSUPPORTED_PTX_VERSION, log));
    }
    let target: Option<i32> =
        word_after(&code, ".target").and_then(|t| t.strip_prefix("sm_")?.parse().ok());
    match target {
        None => return Err((code::INVALID_PTX, "no .target sm_…".into())),
        Some(target) if target > SETTINGS.compute => {
            let log = format!("sm_{target} is newer than the device");
            return Err((code::NO_BINARY_FOR_GPU, log));
        }
        Some(_) => {}
    }
    if word_after(&code, ".address_size") != Some("64") {
        return Err((code::INVALID_PTX, "no .address_size 64".into()));
    }
    (code.split(".entry").skip(1))
        .map(|text| entry(text).ok_or((code::INVALID_PTX, "an .entry that cannot be read".into())))
        .collect()
}

/// The PTX version that came with a driver: 8.2 with CUDA 12.2, 9.0 with 13.0.
fn known_version(driver: i32) -> (i32, i32) {
    (driver / 1000 - 4, driver % 1000 / 10)
}

fn version(code: &str) -> Option<(i32, i32)> {
    let (major, minor) = word_after(code, ".version")?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// The word behind the first `directive`.
fn word_after<'a>(code: &'a str, directive: &str) -> Option<&'a str> {
    let rest = code.split_once(directive)?.1;
    rest.split(|c: char| c.is_whitespace() || c == ',')
        .find(|word| !word.is_empty())
}

fn without_comments(ptx: &str) -> String {
    let lines = ptx
        .lines()
        .map(|line| line.split("//").next().unwrap_or(""));
    lines.collect::<Vec<_>>().join("\n")
}

/// Reads `NAME( .param .align 8 .b8 NAME_param_0[SIZE] )`, the text behind `.entry`.
fn entry(text: &str) -> Option<Entry> {
    let (name, rest) = text.split_once('(')?;
    let parameters = rest.split_once(')')?.0;
    let mut sizes = parameters.split('[').skip(1);
    let size = sizes.next()?.split_once(']')?.0.trim().parse().ok()?;
    let single = sizes.next().is_none() && !parameters.contains(',');
    single.then(|| Entry {
        name: name.trim().to_owned(),
        parameter_bytes: size,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ptx(version: &str, target: &str) -> String {
        format!(
            "//\n// .version 99.0 .entry no(\n//\n.version {version}\n.target {target}\n\
             .address_size 64\n\n.visible .entry one(\n\t.param .align 8 .b8 one_param_0[2448]\n)\n\
             .maxntid 256, 1, 1\n{{\n\tret;\n}}\n.visible .entry two(.param .align 8 .b8 p[16])\n{{ret;}}\n"
        )
    }

    #[test]
    fn kernels_are_found_with_the_size_of_their_parameter() {
        let found = entries(&ptx("8.2", "sm_75")).unwrap();
        let expected = [("one", 2448), ("two", 16)].map(|(name, parameter_bytes)| Entry {
            name: name.into(),
            parameter_bytes,
        });
        assert_eq!(found, expected);
    }

    #[test]
    fn variables_in_constant_memory_are_found_with_their_size() {
        let text =
            ptx("8.2", "sm_75") + ".const .align 4 .b8 numbers[1456];\n.global .u32 other;\n";
        let expected = [Variable {
            name: "numbers".into(),
            bytes: 1456,
        }];
        assert_eq!(variables(&text), expected);
    }

    #[test]
    fn newer_versions_and_devices_are_refused() {
        let refused = |text: &str| entries(text).unwrap_err().0;
        assert_eq!(refused(&ptx("8.3", "sm_75")), code::UNSUPPORTED_PTX_VERSION);
        assert_eq!(refused(&ptx("8.2", "sm_100")), code::NO_BINARY_FOR_GPU);
        assert_eq!(refused(&ptx("8.2", "compute")), code::INVALID_PTX);
        assert_eq!(refused("\x7fELF"), code::INVALID_IMAGE);
    }
}
