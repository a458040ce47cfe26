//! Looking inside. Two verbs stand on this room:
//!
//! * [`explain`]: the lectures' own arithmetic, recomputed. A topic is a [`page::Page`]; how it looks is [`render`]'s.
//! * [`see`]: what a model of one's own does with a text or a picture: attention maps, the logit lens, attributions.
//!
//! It is one room and not three, because both verbs answer with the same tables and pictures, and because a model's
//! numbers are to stand on a topic's page as the slide's numbers do. Below it are the tasks (a model with its tokenizer);
//! above it the server and the binary.

pub mod arithmetic;
pub mod explain;
pub mod page;
pub mod render;
pub mod see;
