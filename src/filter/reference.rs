//! The scalar float64 definition that everything is checked against.
//!
//! Written from the meaning of the properties, not from [`super::plan`]: it shares the float64
//! coefficients of [`super::kernels`] and the description of the frame, and nothing else.

mod levels;

use super::kernels::{BilateralWindow, Coefficients, Filter, TRANSPARENT};
use super::layout::{Channel, Group, Layout, Role};
use super::levels::Grid;
use super::plan::PlanError;
use super::spec::{Alpha, Border, Distance, FilterSpec, Method, Planes};

/// What one channel of a frame should hold.
#[derive(Debug, Clone, PartialEq)]
pub struct Component {
    /// Index into [`Layout::groups`], and into the channels of that group.
    pub group: usize,
    pub channel: usize,
    /// Samples per row, and rows.
    pub width: usize,
    pub height: usize,
    /// The exact results in code values, row by row, neither rounded nor clamped.
    pub values: Vec<f64>,
    /// The code values: rounded half to even and clamped.
    pub codes: Vec<u32>,
}

/// A frame to read: the bytes of each plane from its first row on, and its stride.
pub type InputPlanes<'a> = [(&'a [u8], usize)];

/// Filters a frame of `layout`, given as `planes`; with `interlaced` each field by itself. Of the
/// methods, `fast` alone is a definition of its own, of channels that have a weight of their own.
/// Components come in the order of the layout's groups and channels.
///
/// # Errors
/// When the settings contradict each other.
///
/// # Panics
/// When `planes` are shorter than `layout` says.
pub fn filter(
    spec: &FilterSpec,
    layout: &Layout,
    planes: &InputPlanes,
    interlaced: bool,
) -> Result<Vec<Component>, PlanError> {
    let mut components = Vec::new();
    for (index, group) in layout.groups.iter().enumerate() {
        let filter = Filter::new(spec, group.subsampling).ok_or(PlanError::NoMatrix)?;
        let context = Context {
            spec,
            layout,
            group,
            filter,
        };
        context.check_alpha()?;
        let codes = read(layout, group, planes);
        for channel in 0..group.channels.len() {
            let values = context.channel(channel, &codes, interlaced);
            let max = f64::from(layout.max_code());
            components.push(Component {
                group: index,
                channel,
                width: group.width,
                height: group.height,
                codes: values
                    .iter()
                    .map(|value| value.round_ties_even().clamp(0.0, max) as u32)
                    .collect(),
                values,
            });
        }
    }
    Ok(components)
}

/// The code values of every channel of `group`, row by row.
fn read(layout: &Layout, group: &Group, planes: &InputPlanes) -> Vec<Vec<f64>> {
    let channel = |channel: &Channel| {
        let (bytes, stride) = planes[channel.plane];
        let mut codes = Vec::with_capacity(group.width * group.height);
        for y in 0..group.height {
            for x in 0..group.width {
                let at = y * stride + channel.offset + x * channel.step;
                codes.push(f64::from(layout.sample.read(&bytes[at..])));
            }
        }
        codes
    };
    group.channels.iter().map(channel).collect()
}

/// Numbers on a grid, and what lies beyond its edge under `border=constant`.
#[derive(Clone)]
struct Image {
    width: usize,
    height: usize,
    pixels: Vec<f64>,
    beyond: f64,
}

impl Image {
    /// The pixels of both, multiplied.
    fn times(&self, other: &Image) -> Image {
        let products = self.pixels.iter().zip(&other.pixels).map(|(a, b)| a * b);
        Image {
            pixels: products.collect(),
            beyond: self.beyond * other.beyond,
            ..*self
        }
    }

    /// The image with `radius` pixels more on each side, by the border rule.
    fn extended(&self, radius: (usize, usize), border: Border) -> Image {
        let (rx, ry) = (radius.0 as isize, radius.1 as isize);
        let (width, height) = (self.width as isize, self.height as isize);
        let mut pixels = Vec::new();
        for y in -ry..height + ry {
            for x in -rx..width + rx {
                let inside = (inside(x, width, border), inside(y, height, border));
                pixels.push(match inside {
                    (Some(x), Some(y)) => self.pixels[y * self.width + x],
                    _ => self.beyond,
                });
            }
        }
        Image {
            width: self.width + 2 * radius.0,
            height: self.height + 2 * radius.1,
            pixels,
            beyond: self.beyond,
        }
    }
}

/// The pixel that stands for `position` in a row of `length`: the border rule, again and again
/// until it leads inside.
fn inside(mut position: isize, length: isize, border: Border) -> Option<usize> {
    while position < 0 || position >= length {
        let left = position < 0;
        position = match border {
            Border::Replicate => position.clamp(0, length - 1),
            Border::Reflect if left => -1 - position,
            Border::Reflect => 2 * length - 1 - position,
            Border::Reflect101 if length == 1 => 0,
            Border::Reflect101 if left => -position,
            Border::Reflect101 => 2 * (length - 1) - position,
            Border::Wrap if left => position + length,
            Border::Wrap => position - length,
            Border::Constant => return None,
        };
    }
    Some(position as usize)
}

struct Context<'a> {
    spec: &'a FilterSpec,
    layout: &'a Layout,
    group: &'a Group,
    filter: Filter,
}

impl Context<'_> {
    fn alpha(&self) -> Option<usize> {
        self.group
            .channels
            .iter()
            .position(|c| c.role == Role::Alpha)
    }

    fn is_filtered(&self, role: Role) -> bool {
        match role {
            _ if self.filter.is_copy() && (self.spec.bias == 0.0 || !has_bias(role)) => false,
            Role::Padding => false,
            Role::Alpha => self.spec.alpha != Alpha::Copy,
            Role::Luma | Role::Colour => true,
            Role::Chroma => match self.spec.planes {
                Planes::Auto => !self.filter.sums_to_zero(),
                Planes::All => true,
                Planes::Luma => false,
            },
        }
    }

    /// Whether colours of this group are multiplied by its alpha.
    fn premultiplies(&self) -> bool {
        self.spec.alpha == Alpha::Premultiply && !self.filter.is_copy()
    }

    fn check_alpha(&self) -> Result<(), PlanError> {
        let anywhere = self.layout.groups.iter().flat_map(|group| &group.channels);
        let has_alpha = anywhere.into_iter().any(|c| c.role == Role::Alpha);
        let filtered = self.group.channels.iter().any(|c| self.is_filtered(c.role));
        if self.premultiplies() && has_alpha && self.alpha().is_none() && filtered {
            return Err(PlanError::Premultiply {
                format: self.layout.format,
            });
        }
        Ok(())
    }

    /// The exact results of one channel, from the code values of all channels of the group.
    fn channel(&self, index: usize, codes: &[Vec<f64>], interlaced: bool) -> Vec<f64> {
        let channel = &self.group.channels[index];
        if !self.is_filtered(channel.role) {
            let neutral = channel.role == Role::Chroma
                && self.spec.planes == Planes::Auto
                && self.filter.sums_to_zero();
            return match neutral {
                true => vec![f64::from(channel.zero); codes[index].len()],
                false => codes[index].clone(),
            };
        }
        let width = self.group.width;
        let fields = if interlaced { 2 } else { 1 };
        let mut result = vec![0.0; width * self.group.height];
        for first in 0..fields {
            let rows = || (first..self.group.height).step_by(fields);
            if rows().next().is_none() {
                continue;
            }
            let images: Vec<Image> = (self.group.channels.iter().zip(codes))
                .map(|(channel, codes)| Image {
                    width,
                    height: rows().count(),
                    pixels: rows()
                        .flat_map(|y| &codes[y * width..(y + 1) * width])
                        .map(|code| code - f64::from(channel.zero))
                        .collect(),
                    beyond: self.beyond(channel.role),
                })
                .collect();
            let filtered = self.field(index, &images);
            for (y, row) in rows().zip(filtered.chunks(width)) {
                result[y * width..(y + 1) * width].copy_from_slice(row);
            }
        }
        let bias = if has_bias(channel.role) {
            self.spec.bias * self.layout.scale()
        } else {
            0.0
        };
        result
            .iter()
            .map(|value| f64::from(channel.zero) + value + bias)
            .collect()
    }

    /// What lies beyond the edge, above the zero level.
    fn beyond(&self, role: Role) -> f64 {
        match role {
            Role::Luma | Role::Colour => self.spec.border_value * self.layout.scale(),
            Role::Alpha => f64::from(self.layout.max_code()),
            Role::Chroma | Role::Padding => 0.0,
        }
    }

    /// The filtered channel above its zero level, without bias.
    fn field(&self, index: usize, images: &[Image]) -> Vec<f64> {
        let role = self.group.channels[index].role;
        let alpha = match self.alpha() {
            Some(alpha) if self.premultiplies() && role != Role::Alpha => &images[alpha],
            _ => {
                let guides = self.guides(index, images);
                if let (Filter::Bilateral(window), Method::Fast, [image]) =
                    (&self.filter, self.spec.method, &guides[..])
                {
                    return self.by_levels(image, window, index);
                }
                return self.apply(&images[index], &guides, 1.0);
            }
        };
        let products: Vec<Image> = images.iter().map(|image| image.times(alpha)).collect();
        let guides = self.guides(index, &products);
        let unit = f64::from(self.layout.max_code());
        let colours = self.apply(&products[index], &guides, unit);
        let alphas = self.apply(alpha, &guides, unit);
        let quotients = colours.iter().zip(&alphas);
        quotients
            .map(|(colour, &alpha)| {
                if alpha >= TRANSPARENT {
                    colour / alpha
                } else {
                    0.0
                }
            })
            .collect()
    }

    /// The images whose differences make the bilateral weight of a channel.
    fn guides<'i>(&self, index: usize, images: &'i [Image]) -> Vec<&'i Image> {
        if self.group.channels[index].role != Role::Colour {
            return vec![&images[index]];
        }
        let channels = self.group.channels.iter().zip(images);
        channels
            .filter(|(channel, _)| channel.role == Role::Colour)
            .map(|(_, image)| image)
            .collect()
    }

    fn by_levels(&self, image: &Image, window: &BilateralWindow, index: usize) -> Vec<f64> {
        let sigma = window.sigma_color * self.layout.scale();
        let grid = Grid::new(sigma, f64::from(self.layout.max_code()));
        let zero = f64::from(self.group.channels[index].zero);
        levels::filter(image, window, self.spec.border, &grid, (sigma, zero))
    }

    /// The filter on one image. The guides' values are `unit` times code values.
    fn apply(&self, image: &Image, guides: &[&Image], unit: f64) -> Vec<f64> {
        let border = self.spec.border;
        match &self.filter {
            Filter::Linear {
                coefficients,
                divisor,
            } => correlate(image, coefficients, border)
                .iter()
                .map(|sum| sum / divisor)
                .collect(),
            Filter::Magnitude { x, y, divisor } => {
                let sums = correlate(image, x, border);
                sums.iter()
                    .zip(correlate(image, y, border))
                    .map(|(x, y)| (x * x + y * y).sqrt() / divisor)
                    .collect()
            }
            Filter::Bilateral(window) => {
                let sigma = window.sigma_color * self.layout.scale() * unit;
                bilateral(image, guides, window, sigma, self.spec)
            }
        }
    }
}

fn has_bias(role: Role) -> bool {
    matches!(role, Role::Luma | Role::Colour)
}

/// `Σ_j Σ_i K(i,j) · in(x+i-rx, y+j-ry)` at every pixel.
fn correlate(image: &Image, coefficients: &Coefficients, border: Border) -> Vec<f64> {
    let (columns, rows) = (coefficients.width(), coefficients.height());
    let extended = image.extended((columns / 2, rows / 2), border);
    let mut sums = vec![0.0; image.width * image.height];
    for (index, coefficient) in coefficients.iter().enumerate() {
        if coefficient == 0.0 {
            continue;
        }
        let (i, j) = (index % columns, index / columns);
        for (y, out) in sums.chunks_mut(image.width).enumerate() {
            let row = &extended.pixels[(y + j) * extended.width + i..];
            for (sum, pixel) in out.iter_mut().zip(row) {
                *sum += coefficient * pixel;
            }
        }
    }
    sums
}

/// The mean of `image` over the window, weighted by nearness and by likeness of the guides.
fn bilateral(
    image: &Image,
    guides: &[&Image],
    window: &BilateralWindow,
    sigma_color: f64,
    spec: &FilterSpec,
) -> Vec<f64> {
    let reach = |of: &dyn Fn(&(i32, i32, f64)) -> i32| {
        window
            .offsets
            .iter()
            .map(|o| of(o).unsigned_abs() as usize)
            .max()
            .unwrap_or(0)
    };
    let radius = (reach(&|o| o.0), reach(&|o| o.1));
    let extended = image.extended(radius, spec.border);
    let guides: Vec<Image> = guides
        .iter()
        .map(|g| g.extended(radius, spec.border))
        .collect();
    let mut means = Vec::with_capacity(image.width * image.height);
    for y in 0..image.height {
        for x in 0..image.width {
            let centre = (y + radius.1) * extended.width + x + radius.0;
            let (mut sum, mut weights) = (extended.pixels[centre], 1.0);
            for &(dx, dy, nearness) in &window.offsets {
                let offset = dy as isize * extended.width as isize + dx as isize;
                let at = (centre as isize + offset) as usize;
                let differences = guides
                    .iter()
                    .map(|g| (g.pixels[at] - g.pixels[centre]).abs());
                let squared = match spec.distance {
                    Distance::L1 => differences.sum::<f64>().powi(2),
                    Distance::L2 => differences.map(|d| d * d).sum(),
                };
                let weight = (nearness - squared / (2.0 * sigma_color * sigma_color)).exp();
                sum += weight * extended.pixels[at];
                weights += weight;
            }
            means.push(sum / weights);
        }
    }
    means
}

#[cfg(test)]
mod tests {
    use super::super::spec::Kernel;
    use super::*;

    fn grey(width: u32, height: u32) -> Layout {
        gst::init().unwrap();
        let format = gst_video::VideoFormat::Gray8;
        let info = gst_video::VideoInfo::builder(format, width, height);
        Layout::new(&info.build().unwrap()).unwrap()
    }

    fn filtered(spec: &FilterSpec, width: u32, pixels: &[u8], interlaced: bool) -> Vec<u32> {
        let layout = grey(width, pixels.len() as u32 / width);
        let components = filter(spec, &layout, &[(pixels, width as usize)], interlaced);
        components.unwrap().remove(0).codes
    }

    fn custom(matrix: &str) -> FilterSpec {
        FilterSpec {
            kernel: Kernel::Custom,
            matrix: Some(matrix.parse().unwrap()),
            ..FilterSpec::default()
        }
    }

    #[test]
    fn borders_are_those_of_their_diagrams_however_far_outside() {
        let line = |border, pixels: &str| {
            let pixel = |x| match inside(x, pixels.len() as isize, border) {
                Some(x) => pixels.as_bytes()[x] as char,
                None => '.',
            };
            (-7..pixels.len() as isize + 4)
                .map(pixel)
                .collect::<String>()
        };
        assert_eq!(line(Border::Replicate, "abc"), "aaaaaaaabccccc");
        assert_eq!(line(Border::Reflect, "abc"), "aabccbaabccbaa");
        assert_eq!(line(Border::Reflect101, "abc"), "bcbabcbabcbabc");
        assert_eq!(line(Border::Wrap, "abc"), "cabcabcabcabca");
        assert_eq!(line(Border::Constant, "abc"), ".......abc....");
        for border in [
            Border::Replicate,
            Border::Reflect,
            Border::Reflect101,
            Border::Wrap,
        ] {
            assert_eq!(line(border, "a"), "aaaaaaaaaaaa");
        }
        assert_eq!(line(Border::Reflect101, "ab"), "babababababab");
    }

    #[test]
    fn it_correlates_and_does_not_flip_the_kernel() {
        // 1 at the top left takes each pixel from its upper left neighbour.
        let pixels = [0, 0, 0, 0, 9, 0, 0, 0, 0];
        let moved = filtered(&custom("1 0 0; 0 0 0; 0 0 0"), 3, &pixels, false);
        assert_eq!(moved, [0, 0, 0, 0, 0, 0, 0, 0, 9]);
        let weighed = filtered(
            &FilterSpec {
                divisor: 1.0,
                ..custom("1 2 3;")
            },
            3,
            &[0, 9, 0],
            false,
        );
        assert_eq!(weighed, [27, 18, 9]);
        let down = filtered(
            &FilterSpec {
                divisor: 1.0,
                ..custom("1;2;3")
            },
            1,
            &[0, 9, 0],
            false,
        );
        assert_eq!(down, [27, 18, 9]);
    }

    #[test]
    fn halves_are_rounded_to_even_and_results_clamped() {
        let halved = FilterSpec {
            divisor: 2.0,
            ..custom("1")
        };
        assert_eq!(filtered(&halved, 4, &[1, 3, 5, 255], false), [0, 2, 2, 128]);
        let clamped = FilterSpec {
            bias: -100.0,
            divisor: 0.5,
            ..custom("1")
        };
        assert_eq!(filtered(&clamped, 3, &[10, 100, 255], false), [0, 100, 255]);
    }

    #[test]
    fn fields_are_filtered_by_themselves() {
        let rows: Vec<u8> = (0..7).map(|y| if y % 2 == 0 { 0 } else { 255 }).collect();
        let blur = FilterSpec {
            kernel: Kernel::Gauss9,
            ..FilterSpec::default()
        };
        let expected: Vec<u32> = rows.iter().map(|&code| code.into()).collect();
        assert_eq!(filtered(&blur, 1, &rows, true), expected);
        assert_ne!(filtered(&blur, 1, &rows, false), expected);
        assert_eq!(filtered(&blur, 1, &[77], true), [77]);
    }
}
