//! Changing the filter while it runs.

use gst::glib;
use gst::prelude::*;

use super::keys::{self, Action};
use super::swap;
use crate::companion::{Next, Stage};
use crate::properties::{self, Accepts};

/// Kernels whose size the property `radius` sets.
const SIZED: &[&str] = &["box", "gauss", "unsharp", "bilateral"];
/// As the property `radius` takes it.
const LARGEST: i32 = 32;

/// What an action came to.
#[derive(Debug, PartialEq, Eq)]
pub enum Change {
    /// Properties have other values.
    Settings,
    /// Another filter runs; the old one, stopped, with its statistics.
    Filter(gst::Element),
    Nothing,
}

/// Does what a key asks for, and says what came of it.
pub fn act(stage: &mut Stage<'_>, action: Action) -> (Change, Next) {
    let change = match action {
        Action::Kernel(by) => {
            next(stage.filter, "kernel", by, |nick, filter| {
                nick != "custom" || !text(filter, "matrix").is_empty()
            });
            stage.say(&format!("kernel {}", title(stage.filter)));
            Change::Settings
        }
        Action::Radius(by) => radius(stage, by),
        Action::Policy => {
            next(stage.filter, "over-budget", 1, |_, _| true);
            let policy = text(stage.filter, "over-budget");
            stage.say(&format!("over-budget {policy}"));
            Change::Settings
        }
        Action::Backend => backend(stage),
        Action::Help => {
            stage.say(keys::HELP);
            Change::Nothing
        }
        Action::End => return (Change::Nothing, Next::End),
    };
    (change, Next::GoOn)
}

/// The kernel, with its radius where it has one.
pub fn title(filter: &gst::Element) -> String {
    let kernel = text(filter, "kernel");
    match has_radius(&kernel) {
        true => format!("{kernel}, radius {}", effective_radius(filter)),
        false => kernel,
    }
}

/// A property as text.
pub fn text(filter: &gst::Element, name: &str) -> String {
    properties::text_of(&filter.property_value(name))
}

fn has_radius(kernel: &str) -> bool {
    SIZED.contains(&kernel)
}

/// The names that a property of a choice has, in the element's order.
fn choices(filter: &gst::Element, name: &str) -> Vec<String> {
    let property = properties::of(filter).into_iter().find(|p| p.name == name);
    match property.map(|property| property.accepts) {
        Some(Accepts::Choice(names)) => names.into_iter().map(|(nick, _)| nick).collect(),
        _ => Vec::new(),
    }
}

/// Goes on by `by` among the choices that `usable` lets pass.
fn next(
    filter: &gst::Element,
    name: &str,
    by: isize,
    usable: impl Fn(&str, &gst::Element) -> bool,
) {
    let mut names = choices(filter, name);
    names.retain(|nick| usable(nick, filter));
    let current = text(filter, name);
    let place = names.iter().position(|nick| *nick == current).unwrap_or(0);
    let place = (place as isize + by).rem_euclid(names.len().max(1) as isize);
    if let Some(nick) = names.get(place as usize) {
        filter.set_property_from_str(name, nick);
    }
}

fn radius(stage: &Stage<'_>, by: i32) -> Change {
    let kernel = text(stage.filter, "kernel");
    if !has_radius(&kernel) {
        stage.say(&format!(
            "{kernel} has no radius; {} have one",
            SIZED.join(", ")
        ));
        return Change::Nothing;
    }
    let radius = (effective_radius(stage.filter) + by).clamp(1, LARGEST);
    stage.filter.set_property("radius", radius);
    stage.say(&format!("radius {radius}"));
    Change::Settings
}

/// The radius in use: the property's, or what the element derives where that is 0.
fn effective_radius(filter: &gst::Element) -> i32 {
    let radius: i32 = filter.property("radius");
    if radius > 0 {
        return radius;
    }
    let number = |name: &str| filter.property::<f64>(name);
    let derived = match text(filter, "kernel").as_str() {
        "gauss" | "unsharp" if number("sigma") > 0.0 => (3.0 * number("sigma")).ceil(),
        "gauss" | "unsharp" => 2.0,
        "bilateral" => (1.5 * number("sigma-space")).round_ties_even(),
        _ => 1.0,
    };
    (derived as i32).clamp(1, LARGEST)
}

/// The next backend that works.
fn backend(stage: &mut Stage<'_>) -> Change {
    let names = choices(stage.filter, "backend");
    let current = text(stage.filter, "backend");
    let place = names.iter().position(|nick| *nick == current).unwrap_or(0);
    for by in 1..names.len() {
        let name = &names[(place + by) % names.len()];
        match switch(stage, name) {
            Ok(old) => {
                stage.say(&format!("backend {name}"));
                return Change::Filter(old);
            }
            Err(error) => stage.say(&format!("backend {name} cannot be taken: {error}")),
        }
    }
    Change::Nothing
}

fn switch(stage: &mut Stage<'_>, name: &str) -> Result<gst::Element, String> {
    let class = glib::EnumClass::with_type(stage.filter.property_type("backend").ok_or("")?);
    let value = class.and_then(|class| class.to_value_by_nick(name));
    let new = swap::prepare(stage.filter, &value.ok_or("the element does not know it")?)?;
    if let Err(error) = swap::replace(stage.pipeline, stage.filter, &new) {
        // Going to NULL cannot fail.
        let _ = new.set_state(gst::State::Null);
        return Err(error);
    }
    Ok(std::mem::replace(stage.filter, new))
}
