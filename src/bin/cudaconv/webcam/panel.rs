//! Draws the board on the picture: a label on each half, and a strip at the bottom with the figures
//! and the plot.
//!
//! The strip is a small picture of its own that GStreamer's `overlaycomposition` blends in,
//! whatever the pixel format: so nothing is converted to RGB and back for it, as `cairooverlay`
//! would need, and neither fonts nor drawing libraries have to be installed.

use std::sync::{Arc, Mutex, PoisonError};

use gst::prelude::*;
use gst_video::{VideoFormat, VideoInfo, VideoOverlayFormatFlags};
use tiny_skia::{Color, FillRule, Paint, PathBuilder, Pixmap, Stroke, Transform};

use super::board::{self, Board, Counts, SHOWN};
use super::text::Typeface;

/// The board as both threads hold it.
pub type Shared = Arc<Mutex<Board>>;

/// Of every strip and label.
fn background() -> Color {
    Color::from_rgba8(10, 12, 16, 226)
}

fn dim() -> Color {
    Color::from_rgba8(184, 192, 204, 255)
}

fn latency_color() -> Color {
    Color::from_rgba8(86, 204, 242, 255)
}

fn budget_color() -> Color {
    Color::from_rgba8(255, 190, 80, 255)
}

fn over_color() -> Color {
    Color::from_rgba8(255, 96, 96, 255)
}

/// Signs in the longest line of the strip: what fits, at a width of 0.6 of the text's height.
const LINE: f32 = 41.0;
/// Lines of text in the strip, with the space around them.
const LINES: f32 = 5.4;

/// A small picture and where its upper left corner goes.
struct Piece {
    pixmap: Pixmap,
    x: u32,
    y: u32,
}

/// Draws for pictures of one size.
struct Painter {
    face: Typeface,
    width: u32,
    height: u32,
    /// Height of a line of text, in pixels.
    size: f32,
}

/// Lets `element`, an `overlaycomposition`, draw `board` on every picture.
///
/// # Errors
/// When the font cannot be read.
pub fn draw_on(element: &gst::Element, board: Shared) -> Result<(), String> {
    let face = Typeface::new().map_err(|error| format!("the font cannot be read: {error}"))?;
    let painter = Mutex::new(Painter {
        face,
        width: 0,
        height: 0,
        size: 0.0,
    });
    element.connect("draw", false, move |values| {
        let sample = values.get(1)?.get::<gst::Sample>().ok()?;
        let info = VideoInfo::from_caps(sample.caps()?).ok()?;
        let board = board.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut painter = painter.lock().unwrap_or_else(PoisonError::into_inner);
        painter.resize(info.width(), info.height());
        let composition = composition(&painter.pieces(&board))?;
        Some(composition.to_value())
    });
    Ok(())
}

fn composition(pieces: &[Piece]) -> Option<gst_video::VideoOverlayComposition> {
    let rectangles: Vec<_> = pieces.iter().filter_map(rectangle).collect();
    gst_video::VideoOverlayComposition::new(&rectangles).ok()
}

fn rectangle(piece: &Piece) -> Option<gst_video::VideoOverlayRectangle> {
    let (width, height) = (piece.pixmap.width(), piece.pixmap.height());
    let mut bytes = piece.pixmap.data().to_vec();
    // Overlays are 32-bit words of ARGB, in memory BGRA or the reverse.
    for pixel in bytes.chunks_exact_mut(4) {
        let [r, g, b, a] = [pixel[0], pixel[1], pixel[2], pixel[3]];
        let word = u32::from_be_bytes([a, r, g, b]);
        pixel.copy_from_slice(&word.to_ne_bytes());
    }
    let format = if cfg!(target_endian = "little") {
        VideoFormat::Bgra
    } else {
        VideoFormat::Argb
    };
    let mut buffer = gst::Buffer::from_mut_slice(bytes);
    let meta = gst_video::VideoMeta::add(
        buffer.get_mut()?,
        gst_video::VideoFrameFlags::empty(),
        format,
        width,
        height,
    );
    meta.ok()?;
    let rectangle = gst_video::VideoOverlayRectangle::new_raw(
        &buffer,
        piece.x as i32,
        piece.y as i32,
        width,
        height,
        VideoOverlayFormatFlags::PREMULTIPLIED_ALPHA,
    );
    Some(rectangle)
}

impl Painter {
    fn resize(&mut self, width: u32, height: u32) {
        if (self.width, self.height) == (width, height) {
            return;
        }
        (self.width, self.height) = (width, height);
        // By the picture's height, as long as the longest line fits into its left half.
        let by_height = height as f32 / 24.0;
        let by_width = width as f32 / 2.0 / (LINE * 0.602 + 1.0);
        self.size = by_height.min(by_width).clamp(9.0, 48.0);
    }

    fn pieces(&self, board: &Board) -> Vec<Piece> {
        let half = self.width / 2;
        let after = format!("after: {}", board.title);
        let labels = [self.label("before", 0), self.label(&after, half)];
        labels
            .into_iter()
            .chain([self.strip(board)])
            .flatten()
            .collect()
    }

    fn label(&self, text: &str, half: u32) -> Option<Piece> {
        let gap = self.size * 0.4;
        let width = (self.face.width(text, self.size) + 2.0 * gap).ceil() as u32;
        let height = (self.size + gap).ceil() as u32;
        let x = half + gap as u32;
        let y = gap as u32;
        let width = width.min((self.width / 2).checked_sub(gap as u32)?);
        let height = height.min(self.height.checked_sub(y)?);
        let mut pixmap = Pixmap::new(width, height)?;
        pixmap.fill(background());
        let corner = (gap, gap / 2.0);
        self.face
            .draw(&mut pixmap, text, corner, self.size, Color::WHITE);
        Some(Piece { pixmap, x, y })
    }

    /// The strip at the bottom, as wide as the picture.
    fn strip(&self, board: &Board) -> Option<Piece> {
        let height = ((self.size * LINES).ceil() as u32).min(self.height);
        let mut pixmap = Pixmap::new(self.width, height)?;
        pixmap.fill(background());
        self.figures(&mut pixmap, board);
        self.plot(&mut pixmap, board);
        Some(Piece {
            pixmap,
            x: 0,
            y: self.height - height,
        })
    }

    fn figures(&self, onto: &mut Pixmap, board: &Board) {
        let size = self.size;
        let left = size * 0.8;
        let line = |index: f32| size * (0.45 + 1.2 * index);
        let mut put = |text: &str, x: f32, y: f32, color: Color| {
            self.face.draw(onto, text, (x, y), size, color);
            x + self.face.width(text, size)
        };
        put(&board.title, left, line(0.0), Color::WHITE);
        let (now, p99) = match board.figures {
            Some(figures) => (figures.now, figures.p99),
            None => (0, 0),
        };
        let over = |time: u64, color: Color| match time > board.budget {
            true => over_color(),
            false => color,
        };
        let text = |time: u64| match board.figures {
            Some(_) => board::short(time),
            None => "-".to_owned(),
        };
        let y = line(1.0);
        let x = put("latency ", left, y, dim());
        let x = put(&text(now), x, y, over(now, latency_color()));
        let x = put(" now, ", x, y, dim());
        let x = put(&text(p99), x, y, over(p99, Color::WHITE));
        let x = put(" p99, budget ", x, y, dim());
        let x = put(&board::budget(board.budget), x, y, budget_color());
        put(" ms", x, y, dim());
        put(&board.how, left, line(2.0), dim());
        let fine = board.counts == Counts::default();
        let color = if fine { dim() } else { over_color() };
        put(&board.outcome(), left, line(3.0), color);
    }

    /// The latency of the last frames over a logarithmic axis: a budget of 33 ms and a latency of
    /// 0.5 ms can both be read from it.
    fn plot(&self, onto: &mut Pixmap, board: &Board) {
        let size = self.size;
        let small = self.small();
        let axis = Axis::around(board);
        let labels = self.face.width("0.01 ", small);
        let left = self.width as f32 / 2.0 + size * 0.5 + labels;
        let right = self.width as f32 - size * 0.8;
        // Above the plot is a line of words, which no curve runs through.
        let (top, bottom) = (size * 1.5, onto.height() as f32 - size * 0.7);
        if right - left < 20.0 || bottom - top < 10.0 {
            return;
        }
        let at = |milliseconds: f64| bottom - axis.share(milliseconds) * (bottom - top);
        self.grid(onto, &axis, (left, right), at);
        let thick = (size / 11.0).max(1.0);
        let y = at(board.budget as f64 / 1e6);
        line(onto, (left, y), (right, y), thick, budget_color());
        let words = size * 0.35;
        let text = format!("budget {} ms", board::budget(board.budget));
        self.face
            .draw(onto, &text, (left, words), small, budget_color());
        let text = format!("last {SHOWN} frames, ms");
        let x = right - self.face.width(&text, small);
        self.face.draw(onto, &text, (x, words), small, dim());
        // The newest frame is at the right edge, whatever the number of frames.
        let step = (right - left) / (SHOWN - 1) as f32;
        let x = |index: usize| right - (board.points.len() - 1 - index) as f32 * step;
        let points = board.points.iter().enumerate();
        let places: Vec<(f32, f32)> = points
            .map(|(index, point)| (x(index), at(point.latency as f64 / 1e6)))
            .collect();
        curve(onto, &places, thick, latency_color());
        for (place, point) in places.iter().zip(&board.points) {
            if point.over_budget {
                dot(onto, *place, thick * 2.0, over_color());
            }
        }
    }

    /// Height of the words around the plot, in pixels.
    fn small(&self) -> f32 {
        (self.size * 0.75).max(9.0)
    }

    /// The lines of the powers of ten, with their numbers.
    fn grid(
        &self,
        onto: &mut Pixmap,
        axis: &Axis,
        (left, right): (f32, f32),
        at: impl Fn(f64) -> f32,
    ) {
        let small = self.small();
        // Powers of ten that lie too close for their numbers are named by turns.
        let ticks: Vec<f64> = axis.ticks().collect();
        let apart = at(1.0) - at(10.0);
        let every = (small * 1.3 / apart).ceil().max(1.0) as usize;
        for (index, tick) in ticks.into_iter().enumerate() {
            let y = at(tick);
            line(
                onto,
                (left, y),
                (right, y),
                1.0,
                Color::from_rgba8(255, 255, 255, 50),
            );
            if index % every != 0 {
                continue;
            }
            let text = format!("{tick}");
            let x = left - self.face.width(&format!("{text} "), small);
            self.face
                .draw(onto, &text, (x, y - small * 0.55), small, dim());
        }
    }
}

/// A logarithmic axis of milliseconds, from one power of ten to above all that is on it.
struct Axis {
    low: f64,
    high: f64,
}

impl Axis {
    fn around(board: &Board) -> Axis {
        let budget = (board.budget as f64 / 1e6).clamp(0.01, 100_000.0);
        let all = board
            .points
            .iter()
            .map(|p| (p.latency as f64 / 1e6).max(0.01));
        let (least, most) = all.fold((budget, budget), |(least, most), time| {
            (least.min(time), most.max(time))
        });
        // At least a power of ten below the budget, so that the axis keeps still while latencies change.
        Axis {
            low: 10f64.powf(least.min(budget / 10.0).log10().floor()),
            high: most.max(budget * 1.5) * 1.25,
        }
    }

    /// Between 0, at the lower end, and 1.
    fn share(&self, milliseconds: f64) -> f32 {
        let place = (milliseconds.max(1e-6) / self.low).ln() / (self.high / self.low).ln();
        place.clamp(0.0, 1.0) as f32
    }

    fn ticks(&self) -> impl Iterator<Item = f64> {
        let high = self.high;
        std::iter::successors(Some(self.low), |tick| Some(tick * 10.0))
            .take_while(move |tick| *tick <= high)
            .map(|tick| (tick * 1000.0).round() / 1000.0)
    }
}

fn paint(color: Color) -> Paint<'static> {
    let mut paint = Paint::default();
    paint.set_color(color);
    paint.anti_alias = true;
    paint
}

fn line(onto: &mut Pixmap, from: (f32, f32), to: (f32, f32), thick: f32, color: Color) {
    curve(onto, &[from, to], thick, color);
}

fn curve(onto: &mut Pixmap, places: &[(f32, f32)], thick: f32, color: Color) {
    let mut path = PathBuilder::new();
    for (index, (x, y)) in places.iter().enumerate() {
        match index {
            0 => path.move_to(*x, *y),
            _ => path.line_to(*x, *y),
        }
    }
    // There is no path through fewer than two places.
    if let Some(path) = path.finish() {
        let stroke = Stroke {
            width: thick,
            ..Stroke::default()
        };
        onto.stroke_path(&path, &paint(color), &stroke, Transform::identity(), None);
    }
}

fn dot(onto: &mut Pixmap, (x, y): (f32, f32), size: f32, color: Color) {
    if let Some(path) = PathBuilder::from_circle(x, y, size / 2.0) {
        let (paint, rule) = (paint(color), FillRule::Winding);
        onto.fill_path(&path, &paint, rule, Transform::identity(), None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Sample;

    fn board(latencies: impl IntoIterator<Item = u64>) -> Board {
        let mut board = Board::default();
        board.title = "bilateral, radius 8".to_owned();
        board.how = "cpu · separable · report".to_owned();
        board.budget = 33_000_000;
        for latency in latencies {
            board.frame(&Sample {
                latency,
                over_budget: latency > board.budget,
                ..Sample::default()
            });
        }
        board
    }

    fn painter(width: u32, height: u32) -> Painter {
        let mut painter = Painter {
            face: Typeface::new().unwrap(),
            width: 0,
            height: 0,
            size: 0.0,
        };
        painter.resize(width, height);
        painter
    }

    /// Pixels of the right half of the strip that are of `color`.
    fn plotted(board: &Board, color: Color) -> Vec<(u32, u32)> {
        let painter = painter(1280, 480);
        let strip = painter.strip(board).unwrap().pixmap;
        let width = strip.width();
        let is_color = |x: u32, y: u32| {
            let pixel = strip.pixel(x, y).unwrap().demultiply();
            let near = |a: u8, b: f32| (f32::from(a) / 255.0 - b).abs() < 0.06;
            near(pixel.red(), color.red())
                && near(pixel.green(), color.green())
                && near(pixel.blue(), color.blue())
        };
        let all = (width / 2..width).flat_map(|x| (0..strip.height()).map(move |y| (x, y)));
        all.filter(|(x, y)| is_color(*x, *y)).collect()
    }

    #[test]
    fn every_size_of_picture_has_pieces_inside_it() {
        let board = board((1..500).map(|n| n * 100_000));
        let sizes = [
            (1, 1),
            (2, 2),
            (16, 16),
            (128, 48),
            (640, 240),
            (1280, 480),
            (2560, 720),
            (96, 1280),
            (7680, 2160),
        ];
        for (width, height) in sizes {
            for piece in painter(width, height).pieces(&board) {
                let (right, bottom) = (
                    piece.x + piece.pixmap.width(),
                    piece.y + piece.pixmap.height(),
                );
                assert!(
                    right <= width && bottom <= height,
                    "{width}x{height}: {right} {bottom}"
                );
            }
        }
    }

    #[test]
    fn text_is_large_enough_to_be_read_and_fits_into_its_half() {
        for (width, height) in [(1280, 480), (2560, 720), (1920, 540)] {
            let painter = painter(width, height);
            assert!(painter.size >= 20.0, "{width}x{height}: {}", painter.size);
            let longest = "latency 99.9 now, 99.9 p99, budget 33 ms";
            assert!(painter.face.width(longest, painter.size) < width as f32 / 2.0);
        }
    }

    #[test]
    fn a_higher_latency_is_drawn_higher_and_red_over_the_budget() {
        let mean = |places: &[(u32, u32)]| {
            let sum: u32 = places.iter().map(|(_, y)| y).sum();
            f64::from(sum) / places.len() as f64
        };
        let heights: Vec<f64> = [2_000_000, 8_000_000, 30_000_000]
            .map(|latency| mean(&plotted(&board([latency; SHOWN]), latency_color())))
            .into();
        assert!(
            heights.is_sorted_by(|lower, higher| lower > higher),
            "{heights:?}"
        );
        assert!(plotted(&board([30_000_000; SHOWN]), over_color()).is_empty());
        assert!(plotted(&board([34_000_000; SHOWN]), over_color()).len() > 100);
    }

    #[test]
    fn the_newest_frame_is_at_the_right() {
        let few = plotted(&board([5_000_000; 20]), latency_color());
        let left = few.iter().map(|(x, _)| *x).min().unwrap();
        assert!(left > 1200, "{left}");
        let all = plotted(&board([5_000_000; SHOWN]), latency_color());
        assert!(all.iter().any(|(x, _)| *x < 720));
    }

    #[test]
    fn without_budget_or_frames_it_is_drawn_too() {
        for budget in [0, 1, u64::MAX] {
            let mut board = board([0, 1, u64::MAX]);
            board.budget = budget;
            assert_eq!(painter(640, 480).pieces(&board).len(), 3);
        }
        assert_eq!(painter(640, 480).pieces(&Board::default()).len(), 3);
    }
}
