//! Rows of frames: fields, borders, samples as code values, and rows that several threads write.

use crate::engine::{InputFrame, OutputFrame, RawPlane};
use crate::filter::Layout;
use crate::filter::spec::Border;

/// The rows of a grid that are filtered together: all, or every second one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// First row of the field in the frame.
    pub first: usize,
    /// Rows of the frame from one row of the field to the next.
    pub step: usize,
    /// Rows of the field.
    pub height: usize,
}

impl Field {
    /// The fields of a grid of `height` rows; a grid of one row has one field.
    pub fn all(height: usize, interlaced: bool) -> impl Iterator<Item = Field> {
        let step = if interlaced { 2 } else { 1 };
        (0..step).filter_map(move |first| {
            let rows = (height + step - 1).checked_sub(first)? / step;
            (rows > 0).then_some(Field {
                first,
                step,
                height: rows,
            })
        })
    }

    /// The frame's row of row `y` of the field.
    pub fn row(self, y: usize) -> usize {
        self.first + y * self.step
    }
}

/// The position inside `0..len` that stands for `position`, or `None` where the border's constant
/// does. Any distance from the edge; `len` at least 1.
pub fn border_position(border: Border, position: isize, len: usize) -> Option<usize> {
    let last = len as isize - 1;
    if (0..=last).contains(&position) {
        return Some(position as usize);
    }
    let mirrored = |period: isize, beyond: isize| {
        let phase = position.rem_euclid(period);
        if phase > last { beyond - phase } else { phase }
    };
    let inside = match border {
        Border::Replicate => position.clamp(0, last),
        Border::Reflect => mirrored(2 * last + 2, 2 * last + 1),
        Border::Reflect101 if last == 0 => 0,
        Border::Reflect101 => mirrored(2 * last, 2 * last),
        Border::Wrap => position.rem_euclid(last + 1),
        Border::Constant => return None,
    };
    Some(inside as usize)
}

/// The planes of an input frame.
pub struct InputPlanes<'a> {
    planes: Vec<(&'a [u8], usize, usize)>,
}

impl<'a> InputPlanes<'a> {
    pub fn new(layout: &Layout, frame: &'a InputFrame) -> Self {
        let planes = layout.planes.iter().enumerate().map(|(index, size)| {
            let (bytes, stride) = frame.plane(index);
            (bytes, stride, size.row_bytes)
        });
        InputPlanes {
            planes: planes.collect(),
        }
    }

    /// The active bytes of a row.
    pub fn row(&self, plane: usize, y: usize) -> &'a [u8] {
        let (bytes, stride, row_bytes) = self.planes[plane];
        &bytes[y * stride..][..row_bytes]
    }
}

/// The planes of an output frame, whose rows several threads may write at the same time.
pub struct OutputPlanes<'a> {
    planes: Vec<(RawPlane, usize)>,
    frame: std::marker::PhantomData<&'a mut OutputFrame>,
}

// SAFETY: the pointers stand for an exclusive borrow of a frame that is itself `Send + Sync`;
// `row`, the only way to use them, puts the duty to keep the rows apart on its callers.
unsafe impl Send for OutputPlanes<'_> {}
// SAFETY: as above.
unsafe impl Sync for OutputPlanes<'_> {}

impl<'a> OutputPlanes<'a> {
    pub fn new(layout: &Layout, frame: &'a mut OutputFrame) -> Self {
        let sizes = layout.planes.iter().map(|size| size.row_bytes);
        OutputPlanes {
            planes: frame.raw_planes().into_iter().zip(sizes).collect(),
            frame: std::marker::PhantomData,
        }
    }

    /// The active bytes of a row.
    ///
    /// # Safety
    /// While the slice lives, no other slice of the same row, nor of a plane that
    /// [overlaps](Self::overlap) it, may exist.
    #[allow(clippy::mut_from_ref, reason = "the duty of the caller")]
    pub unsafe fn row(&self, plane: usize, y: usize) -> &mut [u8] {
        let (raw, row_bytes) = self.planes[plane];
        let start = y.checked_mul(raw.stride).expect("a row of the frame");
        assert!(
            start
                .checked_add(row_bytes)
                .is_some_and(|end| end <= raw.len),
            "row {y} of plane {plane} lies beyond its memory"
        );
        // SAFETY: the row lies within the plane's memory, as just checked, which is borrowed
        // exclusively for 'a; that nothing else refers to it is the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(raw.start.add(start), row_bytes) }
    }

    /// Whether rows of different planes may share bytes, so that planes must not be written at
    /// the same time. True also of planes whose rows are interleaved in one memory and only
    /// almost touch; such buffers are rare and still filtered rightly, by one thread.
    pub fn overlap(&self, layout: &Layout) -> bool {
        let spans = self.planes.iter().zip(&layout.planes);
        let mut spans: Vec<(usize, usize)> = spans
            .map(|((raw, row_bytes), size)| {
                let start = raw.start as usize;
                let rows = size.rows.saturating_sub(1);
                (start, start + rows * raw.stride + row_bytes)
            })
            .collect();
        spans.sort_unstable();
        spans.windows(2).any(|pair| pair[1].0 < pair[0].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn borders_are_those_of_their_diagrams() {
        let line = |border| {
            (-3..6)
                .map(|i| match border_position(border, i, 3) {
                    Some(i) => "abc".as_bytes()[i] as char,
                    None => '.',
                })
                .collect::<String>()
        };
        assert_eq!(line(Border::Replicate), "aaaabcccc");
        assert_eq!(line(Border::Reflect), "cbaabccba");
        assert_eq!(line(Border::Reflect101), "bcbabcbab");
        assert_eq!(line(Border::Wrap), "abcabcabc");
        assert_eq!(line(Border::Constant), "...abc...");
    }

    #[test]
    fn borders_repeat_on_a_single_pixel() {
        for border in [
            Border::Replicate,
            Border::Reflect,
            Border::Reflect101,
            Border::Wrap,
        ] {
            for position in -70..70 {
                assert_eq!(border_position(border, position, 1), Some(0));
            }
        }
    }

    #[test]
    fn fields_part_the_rows() {
        let rows = |height, interlaced| {
            Field::all(height, interlaced)
                .map(|f| (0..f.height).map(|y| f.row(y)).collect::<Vec<_>>())
                .collect::<Vec<_>>()
        };
        assert_eq!(rows(3, false), [vec![0, 1, 2]]);
        assert_eq!(rows(5, true), [vec![0, 2, 4], vec![1, 3]]);
        assert_eq!(rows(1, true), [vec![0]]);
    }
}
