//! The syntax of the property `matrix`: coefficients as text.

use std::fmt;
use std::str::FromStr;

/// A rectangle of coefficients, row by row; both sides odd, 1 to 31.
#[derive(Debug, Clone, PartialEq)]
pub struct Matrix {
    pub width: usize,
    pub height: usize,
    /// `height * width` coefficients, row-major, each finite in float32.
    pub coefficients: Vec<f32>,
}

/// The most rows or columns of a matrix.
pub const MAX_SIDE: usize = 31;

/// Why a text is no matrix. Each sentence quotes the faulty part and says what is accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MatrixError {
    #[error(
        "matrix: {0:?} holds no coefficient; accepted are decimal numbers separated by blanks or \
         commas, with rows separated by \";\", as in \"0 1 0; 1 4 1; 0 1 0\""
    )]
    Empty(String),
    #[error(
        "matrix: {0:?} is not a number; accepted are decimal numbers with a point, as in 0.5 or \
         -1e-3, separated by blanks or commas"
    )]
    NotANumber(String),
    #[error(
        "matrix: {0:?} is beyond float32; accepted are numbers from -3.4028235e38 to 3.4028235e38"
    )]
    BeyondFloat32(String),
    #[error(
        "matrix: an item is missing at {0:?}; accepted is one comma between two numbers, and one \
         separator at the end of the text"
    )]
    EmptyItem(String),
    #[error(
        "matrix: row {row} is empty in {text:?}; accepted is one \";\" between two rows, and one \
         separator at the end of the text"
    )]
    EmptyRow { row: usize, text: String },
    #[error(
        "matrix: {count} numbers without \";\" in {text:?} make no square with odd sides; accepted \
         are 1, 9, 25, … 961 numbers, or rows separated by \";\" (one row is written \"1 2 1;\")"
    )]
    NotAnOddSquare { count: usize, text: String },
    #[error(
        "matrix: row {row}, {text:?}, has {found} numbers, but the first row has {expected}; \
         accepted are rows of equal length"
    )]
    RowLength {
        row: usize,
        text: String,
        found: usize,
        expected: usize,
    },
    #[error(
        "matrix: {columns} columns and {rows} rows in {text:?}; accepted are odd numbers of \
         columns and rows, 1 to 31 each"
    )]
    Sides {
        columns: usize,
        rows: usize,
        text: String,
    },
}

/// `text` short enough to stand in a message.
fn quote(text: &str) -> String {
    const LONGEST: usize = 60;
    let text = text.trim_matches(is_blank);
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r')
}

/// A coefficient. Rust's own reading of numbers knows no locale, but knows words for infinity
/// and NaN, which are refused here.
fn number(item: &str) -> Result<f32, MatrixError> {
    let written_in_digits = item
        .chars()
        .all(|c| c.is_ascii_digit() || matches!(c, '+' | '-' | '.' | 'e' | 'E'));
    let value: f32 = match item.parse() {
        Ok(value) if written_in_digits => value,
        _ => return Err(MatrixError::NotANumber(quote(item))),
    };
    if !value.is_finite() {
        return Err(MatrixError::BeyondFloat32(quote(item)));
    }
    Ok(value)
}

/// The numbers of one row: separated by blanks or by one comma with blanks around it. With `last`
/// the row ends the text and may end in a comma.
fn row(text: &str, last: bool) -> Result<Vec<f32>, MatrixError> {
    let parts: Vec<&str> = text.split(',').collect();
    let mut numbers = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        let found: Vec<&str> = part.split(is_blank).filter(|i| !i.is_empty()).collect();
        let trailing = last && index > 0 && index + 1 == parts.len();
        if found.is_empty() && !trailing {
            return Err(MatrixError::EmptyItem(around(&parts, index)));
        }
        for item in found {
            numbers.push(number(item)?);
        }
    }
    Ok(numbers)
}

/// The text around the empty `parts[index]`, from the number before it to the one after it.
fn around(parts: &[&str], index: usize) -> String {
    let before = parts[..index]
        .iter()
        .rev()
        .flat_map(|part| part.split(is_blank).rev());
    let after = parts[index + 1..]
        .iter()
        .flat_map(|part| part.split(is_blank));
    let mut text = before
        .map(quote)
        .find(|item| !item.is_empty())
        .unwrap_or_default();
    if index > 0 {
        text.push(',');
    }
    if index + 1 < parts.len() {
        text.push(',');
    }
    text += &after
        .map(quote)
        .find(|item| !item.is_empty())
        .unwrap_or_default();
    text
}

impl FromStr for Matrix {
    type Err = MatrixError;

    /// Reads the syntax of the property `matrix`: numbers with a decimal point, separated by
    /// blanks or commas, rows separated by `;`, one separator allowed at the end. Without `;` the
    /// numbers fill a square. Numbers too small for float32 become 0.
    ///
    /// # Errors
    /// For anything else; the sentence quotes the faulty part and says what is accepted.
    fn from_str(text: &str) -> Result<Self, MatrixError> {
        let text = text.trim_matches(is_blank);
        if text.is_empty() {
            return Err(MatrixError::Empty(text.to_owned()));
        }
        let mut rows: Vec<&str> = text.split(';').collect();
        let square = rows.len() == 1;
        let ends_in_semicolon = rows.len() > 1 && rows.last().is_some_and(|last| last.is_empty());
        if ends_in_semicolon {
            rows.pop();
        }

        let mut width = 0;
        let mut coefficients = Vec::new();
        for (index, row_text) in rows.iter().enumerate() {
            if row_text.chars().all(is_blank) {
                return Err(MatrixError::EmptyRow {
                    row: index + 1,
                    text: quote(text),
                });
            }
            let last = index + 1 == rows.len() && !ends_in_semicolon;
            let numbers = row(row_text, last)?;
            if index == 0 {
                width = numbers.len();
            } else if numbers.len() != width {
                return Err(MatrixError::RowLength {
                    row: index + 1,
                    text: quote(row_text),
                    found: numbers.len(),
                    expected: width,
                });
            }
            coefficients.extend(numbers);
        }
        let mut height = rows.len();
        if square {
            let side = coefficients.len().isqrt();
            if side * side != coefficients.len() || side % 2 == 0 {
                return Err(MatrixError::NotAnOddSquare {
                    count: coefficients.len(),
                    text: quote(text),
                });
            }
            (width, height) = (side, side);
        }
        let accepted = |side: usize| side % 2 == 1 && side <= MAX_SIDE;
        if !accepted(width) || !accepted(height) {
            return Err(MatrixError::Sides {
                columns: width,
                rows: height,
                text: quote(text),
            });
        }
        Ok(Matrix {
            width,
            height,
            coefficients,
        })
    }
}

impl fmt::Display for Matrix {
    /// Writes what [`Matrix::from_str`] reads back as the same matrix.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, row) in self.coefficients.chunks(self.width).enumerate() {
            if index > 0 {
                f.write_str("; ")?;
            }
            for (column, coefficient) in row.iter().enumerate() {
                if column > 0 {
                    f.write_str(" ")?;
                }
                if coefficient.abs() < 1e7 && (coefficient.abs() >= 1e-5 || *coefficient == 0.0) {
                    write!(f, "{coefficient}")?;
                } else {
                    write!(f, "{coefficient:e}")?;
                }
            }
        }
        // A single row without `;` would be read as a square.
        if self.height == 1 && self.width > 1 {
            f.write_str(";")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> (usize, usize, Vec<f32>) {
        let matrix: Matrix = text.parse().unwrap_or_else(|e| panic!("{text:?}: {e}"));
        (matrix.width, matrix.height, matrix.coefficients)
    }

    /// The message for a refused text.
    fn refusal(text: &str) -> String {
        match text.parse::<Matrix>() {
            Ok(matrix) => panic!("{text:?} was read as {matrix:?}"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn squares_need_no_semicolons() {
        assert_eq!(read("5"), (1, 1, vec![5.0]));
        let nine: Vec<f32> = (1..=9).map(|n| n as f32).collect();
        for text in [
            "1 2 3 4 5 6 7 8 9",
            "1,2,3,4,5,6,7,8,9",
            " 1, 2 ,3\t4\n5 6,\r\n7  8 9 ",
            "1 2 3 4 5 6 7 8 9,",
            "1 2 3; 4 5 6; 7 8 9",
            "1,2,3;4,5,6;7,8,9;",
            "1 2 3 ;4 5 6\n;\n7 8 9 ; ",
            "1,2,3;4,5,6;7,8,9,",
        ] {
            assert_eq!(read(text), (3, 3, nine.clone()), "{text:?}");
        }
    }

    #[test]
    fn rows_and_columns_may_differ() {
        assert_eq!(read("1 2 1;"), (3, 1, vec![1.0, 2.0, 1.0]));
        assert_eq!(read("1;2;1"), (1, 3, vec![1.0, 2.0, 1.0]));
        assert_eq!(read("1;2;1;"), (1, 3, vec![1.0, 2.0, 1.0]));
    }

    #[test]
    fn numbers_are_decimal_with_a_point_whatever_the_locale() {
        assert_eq!(
            read("0.5 -1e-3 +2. .25 1E2;").2,
            [0.5, -0.001, 2.0, 0.25, 100.0]
        );
        // A comma is a separator, never a decimal point.
        assert_eq!(read("0,5,1;").2, [0.0, 5.0, 1.0]);
        assert_eq!(read("1e-60;").2, [0.0]);
        for text in [
            "nan",
            "inf",
            "-infinity",
            "NaN;",
            "0x10",
            "1.2.3",
            "e",
            "1e",
            "--1",
            "\u{2212}1",
        ] {
            let message = refusal(text);
            let item = text.trim_end_matches(';');
            assert!(
                message.contains(item) && message.contains("0.5"),
                "{message}"
            );
        }
        for text in ["1e39", "-1e39", "1e400"] {
            let message = refusal(text);
            assert!(
                message.contains(text) && message.contains("3.4028235e38"),
                "{message}"
            );
        }
    }

    #[test]
    fn empty_items_are_refused_with_their_neighbours() {
        for (text, part) in [
            ("1,,2", "\"1,,2\""),
            ("1 2 3; 4 5, , 6; 7 8 9", "\"5,,6\""),
            (",1", "\",1\""),
            ("1,2,1,,", "\"1,,\""),
            (",", "\",\""),
            ("1,;2;3", "\"1,\""),
            ("1,2,1,;", "\"1,\""),
        ] {
            let message = refusal(text);
            assert!(message.contains(part), "{text:?}: {message}");
            assert!(message.contains("accepted is one comma"), "{message}");
        }
        for (text, part) in [
            ("1;;2", "row 2"),
            (";1", "row 1"),
            (";", "row 1"),
            ("1;2;1;;", "row 4"),
            ("1 2 1; ;1 2 1", "row 2"),
        ] {
            let message = refusal(text);
            assert!(
                message.contains(part) && message.contains(text),
                "{text:?}: {message}"
            );
        }
        for text in ["", " \n\t"] {
            assert!(refusal(text).contains("holds no coefficient"));
        }
    }

    #[test]
    fn sizes_are_odd_and_at_most_31() {
        for (text, part) in [
            ("1 2 1", "3 numbers"),
            ("1 2 3 4", "4 numbers"),
            ("1 2 3 4 5 6", "6 numbers"),
            ("1 2;", "2 columns and 1 rows"),
            ("1;2", "1 columns and 2 rows"),
            (
                "1 2 3; 4 5",
                "row 2, \"4 5\", has 2 numbers, but the first row has 3",
            ),
        ] {
            let message = refusal(text);
            assert!(
                message.contains(part) && message.contains("accepted are"),
                "{message}"
            );
        }
        let row = |n: usize| vec!["1"; n].join(" ");
        assert_eq!(read(&(row(31) + ";")).0, 31);
        assert_eq!(read(&row(31 * 31)).1, 31);
        assert!(refusal(&(row(33) + ";")).contains("33 columns"));
        assert!(refusal(&row(33 * 33)).contains("33 columns and 33 rows"));
        assert!(refusal(&row(16)).contains("16 numbers"));
    }

    #[test]
    fn long_texts_are_quoted_in_part() {
        let message = refusal(&"7".repeat(100_000));
        assert!(message.len() < 300, "{}", message.len());
    }

    fn matrices() -> impl Strategy<Value = Matrix> {
        let side = || (0usize..16).prop_map(|n| 2 * n + 1);
        (side(), side()).prop_flat_map(|(width, height)| {
            let number = any::<f32>().prop_filter("finite", |x| x.is_finite());
            prop::collection::vec(number, width * height).prop_map(move |coefficients| Matrix {
                width,
                height,
                coefficients,
            })
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..Default::default() })]

        #[test]
        fn what_is_written_is_read_back(matrix in matrices()) {
            let back: Matrix = matrix.to_string().parse().unwrap();
            prop_assert_eq!(back, matrix);
        }

        #[test]
        fn no_text_panics(text in "[0-9.,; \\-+eE\n\tnaif\u{20ac}]{0,40}") {
            if let Err(error) = text.parse::<Matrix>() {
                prop_assert!(error.to_string().contains("accepted"));
            }
        }

        #[test]
        fn accepted_matrices_have_odd_sides(text in "([0-9][ ,;]){1,30}") {
            if let Ok(matrix) = text.parse::<Matrix>() {
                prop_assert!(matrix.width % 2 == 1 && matrix.height % 2 == 1);
                prop_assert_eq!(matrix.coefficients.len(), matrix.width * matrix.height);
            }
        }
    }
}
