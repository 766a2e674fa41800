//! The element's properties as options: read from the element itself, so that there is no second
//! list of names, ranges or defaults.

use std::fmt::Display;
use std::str::FromStr;

use gst::glib;
use gst::prelude::*;

/// What a property accepts.
#[derive(Debug, Clone, PartialEq)]
pub enum Accepts {
    /// One of these names, each with its meaning.
    Choice(Vec<(String, String)>),
    Boolean,
    /// A whole number; `nanoseconds` says that units of time are accepted too.
    Whole {
        minimum: i128,
        maximum: i128,
        nanoseconds: bool,
    },
    Number {
        minimum: f64,
        maximum: f64,
    },
    Text,
}

/// One writable property.
#[derive(Debug, Clone)]
pub struct Property {
    pub name: String,
    /// The element's own description.
    pub blurb: String,
    pub accepts: Accepts,
    /// As the element serializes it.
    pub default: String,
    value_type: glib::Type,
}

/// The writable properties that `object`'s own class defines, in its order.
pub fn of(object: &impl IsA<glib::Object>) -> Vec<Property> {
    object
        .list_properties()
        .iter()
        .filter(|spec| spec.owner_type() == object.type_())
        .filter(|spec| spec.flags().contains(glib::ParamFlags::WRITABLE))
        .filter_map(Property::new)
        .collect()
}

impl Property {
    /// `None` for types that have no form on a command line.
    fn new(spec: &glib::ParamSpec) -> Option<Property> {
        let blurb = spec.blurb().unwrap_or_default().to_owned();
        Some(Property {
            name: spec.name().to_owned(),
            accepts: accepts(spec, &blurb)?,
            default: text_of(spec.default_value()),
            value_type: spec.value_type(),
            blurb,
        })
    }

    /// Reads `text` as a value of this property.
    ///
    /// # Errors
    /// A sentence that says what is accepted.
    pub fn parse(&self, text: &str) -> Result<glib::Value, String> {
        let refused = || format!("accepted are {}", self.accepted());
        match &self.accepts {
            Accepts::Choice(names) => {
                let known = names.iter().any(|(nick, _)| nick == text);
                let class = glib::EnumClass::with_type(self.value_type);
                class
                    .filter(|_| known)
                    .and_then(|class| class.to_value_by_nick(text))
                    .ok_or_else(refused)
            }
            Accepts::Boolean => match text {
                "true" | "yes" | "on" | "1" => Ok(true.to_value()),
                "false" | "no" | "off" | "0" => Ok(false.to_value()),
                _ => Err(refused()),
            },
            Accepts::Whole {
                minimum,
                maximum,
                nanoseconds,
            } => {
                let number = if *nanoseconds {
                    parse_nanoseconds(text)
                } else {
                    text.parse().ok()
                };
                number
                    .filter(|n| (*minimum..=*maximum).contains(n))
                    .and_then(|n| self.whole(n))
                    .ok_or_else(refused)
            }
            Accepts::Number { minimum, maximum } => f64::from_str(text)
                .ok()
                .filter(|n| n.is_finite() && (*minimum..=*maximum).contains(n))
                .map(|n| self.number(n))
                .ok_or_else(refused),
            Accepts::Text => Ok(text.to_value()),
        }
    }

    fn whole(&self, number: i128) -> Option<glib::Value> {
        Some(match self.value_type {
            glib::Type::I32 => i32::try_from(number).ok()?.to_value(),
            glib::Type::U32 => u32::try_from(number).ok()?.to_value(),
            glib::Type::I64 => i64::try_from(number).ok()?.to_value(),
            _ => u64::try_from(number).ok()?.to_value(),
        })
    }

    fn number(&self, number: f64) -> glib::Value {
        if self.value_type == glib::Type::F32 {
            (number as f32).to_value()
        } else {
            number.to_value()
        }
    }

    /// What is accepted, as the end of a sentence.
    pub fn accepted(&self) -> String {
        match &self.accepts {
            Accepts::Choice(names) => {
                let nicks: Vec<&str> = names.iter().map(|(nick, _)| nick.as_str()).collect();
                nicks.join(", ")
            }
            Accepts::Boolean => "true and false".to_owned(),
            Accepts::Whole {
                minimum,
                maximum,
                nanoseconds: true,
            } => format!(
                "whole numbers of nanoseconds{}, or a number with ns, us, ms or s, as in 33ms",
                range(*minimum, *maximum)
            ),
            Accepts::Whole {
                minimum, maximum, ..
            } => format!("whole numbers{}", range(*minimum, *maximum)),
            Accepts::Number { minimum, maximum } => {
                if *minimum <= -f64::from(f32::MAX) && *maximum >= f64::from(f32::MAX) {
                    "decimal numbers, as in 0.5".to_owned()
                } else {
                    format!("decimal numbers from {minimum} to {maximum}")
                }
            }
            Accepts::Text => "texts".to_owned(),
        }
    }
}

/// ` from A to B`, with the bounds that a type sets by itself left out.
fn range(minimum: i128, maximum: i128) -> String {
    let unbounded = maximum >= i128::from(i32::MAX);
    match (minimum, unbounded) {
        (minimum, true) if minimum <= i128::from(i32::MIN) => String::new(),
        (minimum, true) => format!(", {minimum} or more"),
        (minimum, false) => format!(" from {minimum} to {maximum}"),
    }
}

fn accepts(spec: &glib::ParamSpec, blurb: &str) -> Option<Accepts> {
    let blurb = blurb.to_lowercase();
    let nanoseconds = blurb.contains("nanosecond") || blurb.contains(" ns");
    let whole = |minimum: i128, maximum: i128| Accepts::Whole {
        minimum,
        maximum,
        nanoseconds,
    };
    if let Some(spec) = spec.downcast_ref::<glib::ParamSpecEnum>() {
        let values = spec.enum_class();
        return Some(Accepts::Choice(
            values
                .values()
                .iter()
                .map(|value| (value.nick().to_owned(), value.name().to_owned()))
                .collect(),
        ));
    }
    if spec.is::<glib::ParamSpecBoolean>() {
        return Some(Accepts::Boolean);
    }
    if spec.is::<glib::ParamSpecString>() {
        return Some(Accepts::Text);
    }
    if let Some(spec) = spec.downcast_ref::<glib::ParamSpecInt>() {
        return Some(whole(spec.minimum().into(), spec.maximum().into()));
    }
    if let Some(spec) = spec.downcast_ref::<glib::ParamSpecUInt>() {
        return Some(whole(spec.minimum().into(), spec.maximum().into()));
    }
    if let Some(spec) = spec.downcast_ref::<glib::ParamSpecInt64>() {
        return Some(whole(spec.minimum().into(), spec.maximum().into()));
    }
    if let Some(spec) = spec.downcast_ref::<glib::ParamSpecUInt64>() {
        return Some(whole(spec.minimum().into(), spec.maximum().into()));
    }
    if let Some(spec) = spec.downcast_ref::<glib::ParamSpecDouble>() {
        return Some(Accepts::Number {
            minimum: spec.minimum(),
            maximum: spec.maximum(),
        });
    }
    let spec = spec.downcast_ref::<glib::ParamSpecFloat>()?;
    Some(Accepts::Number {
        minimum: spec.minimum().into(),
        maximum: spec.maximum().into(),
    })
}

/// `33ms`, `0.5s`, `100us`, `7ns` or plain nanoseconds.
fn parse_nanoseconds(text: &str) -> Option<i128> {
    let split = text
        .find(|c: char| c.is_ascii_alphabetic())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let factor = match unit {
        "" => return number.trim().parse().ok(),
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        _ => return None,
    };
    let nanoseconds = f64::from_str(number.trim()).ok()? * factor;
    nanoseconds.is_finite().then(|| nanoseconds.round() as i128)
}

/// A value for people: the nick of an enum, the text of a string.
pub fn text_of(value: &glib::Value) -> String {
    if let Ok(text) = value.get::<Option<String>>() {
        return text.unwrap_or_default();
    }
    if let Some((_, value)) = glib::EnumValue::from_value(value) {
        return value.nick().to_owned();
    }
    match value.serialize() {
        Ok(text) => text.to_string(),
        Err(_) => String::new(),
    }
}

/// Sets `settings` on `element`, which must belong to no pipeline, and tells what it refused.
///
/// # Errors
/// The element's own sentences about values that it did not take.
pub fn try_on<'a>(
    element: &gst::Element,
    settings: impl IntoIterator<Item = (&'a str, &'a glib::Value)>,
) -> Result<(), String> {
    let bus = gst::Bus::new();
    element.set_bus(Some(&bus));
    for (name, value) in settings {
        element.set_property_from_value(name, value);
    }
    let mut refused = Vec::new();
    while let Some(message) =
        bus.pop_filtered(&[gst::MessageType::Warning, gst::MessageType::Error])
    {
        match message.view() {
            gst::MessageView::Warning(warning) => {
                refused.push(warning.error().message().to_owned())
            }
            gst::MessageView::Error(error) => refused.push(error.error().message().to_owned()),
            _ => {}
        }
    }
    element.set_bus(None);
    if refused.is_empty() {
        Ok(())
    } else {
        Err(refused.join("; "))
    }
}

/// `name=value` of every setting, for a pipeline description.
pub fn describe<'a, N: Display + 'a>(
    settings: impl IntoIterator<Item = (N, &'a glib::Value)>,
) -> String {
    settings
        .into_iter()
        .map(|(name, value)| format!("{name}={}", crate::templates::quote(value)))
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stock element with properties of many types stands in for any element.
    fn properties(factory: &str) -> Vec<Property> {
        gst::init().unwrap();
        of(&gst::ElementFactory::make(factory).build().unwrap())
    }

    fn named(properties: &[Property], name: &str) -> Property {
        let found = properties.iter().find(|p| p.name == name);
        found.unwrap_or_else(|| panic!("no {name}")).clone()
    }

    #[test]
    fn names_ranges_and_defaults_come_from_the_element() {
        let all = properties("identity");
        assert!(
            all.iter()
                .all(|p| p.name != "name" && p.name != "last-message")
        );
        let datarate = named(&all, "datarate");
        assert_eq!(
            datarate.accepts,
            Accepts::Whole {
                minimum: 0,
                maximum: i128::from(i32::MAX),
                nanoseconds: false
            }
        );
        assert_eq!(datarate.default, "0");
        let probability = named(&all, "drop-probability");
        assert_eq!(
            probability.accepts,
            Accepts::Number {
                minimum: 0.0,
                maximum: 1.0
            }
        );
        assert_eq!(named(&all, "silent").default, "true");
    }

    #[test]
    fn values_are_read_by_the_type_of_the_property() {
        let identity = properties("identity");
        let probability = named(&identity, "drop-probability");
        assert_eq!(probability.parse("0.5").unwrap().get::<f32>().unwrap(), 0.5);
        for bad in ["2", "-0.1", "nan", "inf", "half", ""] {
            let error = probability.parse(bad).unwrap_err();
            assert_eq!(error, "accepted are decimal numbers from 0 to 1", "{bad}");
        }
        let silent = named(&identity, "silent");
        assert!(!silent.parse("false").unwrap().get::<bool>().unwrap());
        assert!(silent.parse("maybe").is_err());
        let leaky = named(&properties("queue"), "leaky");
        assert_eq!(text_of(&leaky.parse("upstream").unwrap()), "upstream");
        let error = leaky.parse("sideways").unwrap_err();
        assert_eq!(error, "accepted are no, upstream, downstream");
    }

    #[test]
    fn nanoseconds_take_units() {
        let queue = properties("queue");
        let time = named(&queue, "max-size-time");
        for (text, nanoseconds) in [
            ("33000000", 33_000_000),
            ("33ms", 33_000_000),
            ("0.5s", 500_000_000),
            ("100us", 100_000),
            ("7ns", 7),
            ("1 ms", 1_000_000),
        ] {
            let value = time.parse(text).unwrap();
            assert_eq!(value.get::<u64>().unwrap(), nanoseconds, "{text}");
        }
        for bad in ["-1", "1h", "ms", "1e3", "12.5"] {
            assert!(time.parse(bad).is_err(), "{bad}");
        }
        let buffers = named(&queue, "max-size-buffers");
        assert!(buffers.parse("33ms").is_err());
    }

    #[test]
    fn settings_are_described_as_a_pipeline_takes_them() {
        let choice = named(&properties("queue"), "leaky")
            .parse("upstream")
            .unwrap();
        let text = "0 1 0; 1 -4 1".to_value();
        assert_eq!(
            describe([("leaky", &choice), ("matrix", &text)]),
            "leaky=upstream matrix=\"0 1 0; 1 -4 1\""
        );
    }
}
