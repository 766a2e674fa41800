//! Figures with names, as a table and as TOML.

use std::fmt::Write as _;

use gstcudaconv::engine::Engine;
use gstcudaconv::engine::cuda::CudaEngine;

struct Figure {
    name: String,
    value: f64,
    unit: &'static str,
    /// What bounds the value, in its unit, measured in the same run.
    floor: Option<f64>,
    /// What it takes at least by the operations counted.
    bound: Option<f64>,
    /// Of a kernel whose results are as exact as those of `auto`.
    is_exact: bool,
}

#[derive(Default)]
pub struct Figures(Vec<Figure>);

impl Figures {
    /// Keeps a figure and prints it.
    pub fn add(&mut self, name: String, value: f64, unit: &'static str, floor: Option<f64>) {
        self.add_with_bound(name, value, unit, floor, None);
    }

    /// The same with what it takes at least by the operations counted.
    pub fn add_with_bound(
        &mut self,
        name: String,
        value: f64,
        unit: &'static str,
        floor: Option<f64>,
        bound: Option<f64>,
    ) {
        let mut against = floor.map_or(String::new(), |floor| {
            format!("  floor {floor:>9.1}  {:>5.2} x", value / floor)
        });
        if let Some(bound) = bound {
            let _ = write!(
                against,
                "  bound {bound:>6.1}  {:>4.0} %",
                100.0 * bound / value
            );
        }
        println!("{name:<52} {value:>10.1} {unit:<3}{against}");
        self.0.push(Figure {
            name,
            value,
            unit,
            floor,
            bound,
            is_exact: false,
        });
    }

    /// Notes that the last one is of a kernel whose results are as exact as those of `auto`.
    pub fn last_is_exact(&mut self) {
        if let Some(last) = self.0.last_mut() {
            last.is_exact = true;
        }
    }

    /// Kernels for which a method that is as exact takes a twentieth less than `auto`, of figures
    /// `kernel/KERNEL/METHOD/FORMAT/SIZE`.
    pub fn poor_choices(&self) -> Vec<String> {
        let parts = |figure: &Figure| -> Option<[String; 2]> {
            let mut parts: Vec<&str> = figure.name.strip_prefix("kernel/")?.split('/').collect();
            let method = (parts.len() == 4).then(|| parts.remove(1))?;
            Some([method.into(), parts.join("/")])
        };
        let mut poor = Vec::new();
        for auto in &self.0 {
            let Some([method, what]) = parts(auto) else {
                continue;
            };
            if method != "auto" {
                continue;
            }
            for other in self.0.iter().filter(|other| other.is_exact) {
                let is_same = parts(other).is_some_and(|[_, of]| of == what);
                if is_same && other.value < 0.95 * auto.value {
                    poor.push(format!(
                        "{}: {:.1}, {:.1} by {}",
                        what, auto.value, other.value, other.name
                    ));
                }
            }
        }
        poor
    }

    /// The device and all figures.
    pub fn to_toml(&self, engine: &CudaEngine) -> String {
        let mut text = format!(
            "\n[device]\nname = \"{}\"\ndriver = \"{}\"\ncuda = \"{}\"\n",
            engine.device(),
            engine.driver_version,
            engine.cuda_version
        );
        for figure in &self.0 {
            let _ = write!(
                text,
                "\n[[figure]]\nname = \"{}\"\nvalue = {:.2}\nunit = \"{}\"\n",
                figure.name, figure.value, figure.unit
            );
            if let Some(floor) = figure.floor {
                let _ = writeln!(text, "floor = {floor:.2}");
            }
            if let Some(bound) = figure.bound {
                let _ = writeln!(text, "bound = {bound:.2}");
                let _ = writeln!(text, "share = {:.2}", bound / figure.value);
            }
        }
        text
    }
}
