//! Text on a picture. The font is part of the program, so that figures look the same everywhere and
//! a machine without fonts shows them too; it is monospaced, so that they stand still while they
//! change.

use ab_glyph::{Font, FontRef, InvalidFont, PxScale, ScaleFont, point};
use tiny_skia::{Color, Pixmap, PremultipliedColorU8};

/// A font that is ready to draw.
pub struct Typeface {
    font: FontRef<'static>,
}

impl Typeface {
    /// # Errors
    /// When the font that the program carries cannot be read.
    pub fn new() -> Result<Typeface, InvalidFont> {
        let font = FontRef::try_from_slice(epaint_default_fonts::HACK_REGULAR)?;
        Ok(Typeface { font })
    }

    /// Width of `text` in pixels at `size` pixels a line.
    pub fn width(&self, text: &str, size: f32) -> f32 {
        let font = self.font.as_scaled(PxScale::from(size));
        text.chars()
            .map(|c| font.h_advance(font.glyph_id(c)))
            .sum::<f32>()
    }

    /// Draws `text` with its upper left corner at (`x`, `y`); what lies outside is cut off.
    pub fn draw(&self, onto: &mut Pixmap, text: &str, (x, y): (f32, f32), size: f32, color: Color) {
        let font = self.font.as_scaled(PxScale::from(size));
        let (width, height) = (onto.width() as i32, onto.height() as i32);
        let baseline = y + font.ascent();
        let mut left = x;
        for c in text.chars() {
            let glyph = font
                .glyph_id(c)
                .with_scale_and_position(PxScale::from(size), point(left, baseline));
            left += font.h_advance(glyph.id);
            let Some(outline) = self.font.outline_glyph(glyph) else {
                continue;
            };
            let bounds = outline.px_bounds();
            let pixels = onto.pixels_mut();
            outline.draw(|column, row, coverage| {
                let x = bounds.min.x as i32 + column as i32;
                let y = bounds.min.y as i32 + row as i32;
                if (0..width).contains(&x) && (0..height).contains(&y) {
                    let pixel = &mut pixels[(y * width + x) as usize];
                    *pixel = over(*pixel, color, coverage);
                }
            });
        }
    }
}

/// `color` at `coverage` (0 to 1) over a pixel.
fn over(below: PremultipliedColorU8, color: Color, coverage: f32) -> PremultipliedColorU8 {
    let alpha = (color.alpha() * coverage).clamp(0.0, 1.0);
    let blend = |channel: f32, below: u8| {
        let mixed = channel * alpha * 255.0 + f32::from(below) * (1.0 - alpha);
        (mixed + 0.5) as u8
    };
    let a = blend(1.0, below.alpha());
    // Rounding could put a colour above its alpha, which a premultiplied colour must not be.
    let r = blend(color.red(), below.red()).min(a);
    let g = blend(color.green(), below.green()).min(a);
    let b = blend(color.blue(), below.blue()).min(a);
    PremultipliedColorU8::from_rgba(r, g, b, a).unwrap_or(below)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_drawn_inside_its_width_and_line() {
        let face = Typeface::new().unwrap();
        let mut pixmap = Pixmap::new(200, 40).unwrap();
        face.draw(&mut pixmap, "33.0 ms", (10.0, 8.0), 20.0, Color::WHITE);
        let right = 10.0 + face.width("33.0 ms", 20.0);
        let inked: Vec<(u32, u32)> = (0..200 * 40)
            .filter(|i| pixmap.pixels()[*i as usize].alpha() > 0)
            .map(|i| (i % 200, i / 200))
            .collect();
        assert!(inked.len() > 200);
        assert!(
            inked
                .iter()
                .all(|(x, y)| { (10..right.ceil() as u32).contains(x) && (8..28).contains(y) })
        );
    }

    #[test]
    fn every_sign_that_is_shown_is_in_the_font() {
        let face = Typeface::new().unwrap();
        for c in ('!'..='~').chain(['·', '…']) {
            assert_ne!(face.font.glyph_id(c).0, 0, "{c}");
        }
    }

    #[test]
    fn text_beyond_the_edge_is_cut_off() {
        let face = Typeface::new().unwrap();
        let mut pixmap = Pixmap::new(3, 3).unwrap();
        face.draw(&mut pixmap, "WWW", (-5.0, -5.0), 20.0, Color::WHITE);
        face.draw(&mut pixmap, "WWW", (2.0, 2.0), 200.0, Color::WHITE);
    }
}
