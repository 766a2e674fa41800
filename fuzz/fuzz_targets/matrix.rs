//! The syntax of the property `matrix`: any text is a matrix of finite numbers with odd sides, or
//! an error whose sentence is not endless.

#![no_main]

use gstcudaconv::filter::spec::Matrix;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match text.parse::<Matrix>() {
        Ok(matrix) => {
            for side in [matrix.width, matrix.height] {
                assert!(side % 2 == 1 && (1..=31).contains(&side), "{side}");
            }
            assert_eq!(matrix.coefficients.len(), matrix.width * matrix.height);
            assert!(matrix.coefficients.iter().all(|k| k.is_finite()));
            // What was read can be written, and is the same again.
            let rows = matrix.coefficients.chunks(matrix.width);
            let rows = rows.map(|row| row.iter().map(f32::to_string).collect::<Vec<_>>().join(" "));
            let written = rows.map(|row| row + ";").collect::<String>();
            assert_eq!(written.parse::<Matrix>().as_ref(), Ok(&matrix), "{written}");
        }
        Err(error) => assert!(error.to_string().len() < 1000, "{error}"),
    }
});
