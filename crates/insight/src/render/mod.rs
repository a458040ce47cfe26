//! How a [`Page`](crate::page::Page) looks: in a terminal, as CSV for a spreadsheet, as one HTML file, and as a quiz.
//!
//! | file | gives |
//! |---|---|
//! | `terminal` | boxes and aligned columns, as wide as the window |
//! | `csv` | every table, one below the other |
//! | `html` | one file that loads nothing; the frame that all of qkv's new pages share |
//! | `quiz` | the page with cells hidden, and who checks the answers |
//! | `color` | the one colour scale, which also reads in grey and for the colour-blind |

pub mod color;
pub mod csv;
pub mod html;
pub mod quiz;
pub mod terminal;
