//! A tensor as a view of a storage: element `[i₁ … iᵣ]` lies at `offset + Σ iₖ·strideₖ`.

use std::borrow::Cow;

/// The most elements that a view may have when it repeats those of its storage (a stride of zero): such a view says in
/// a few bytes what takes any amount of memory to write out.
pub(crate) const MOST_REPEATED: usize = 1 << 20;

/// Where the elements of a tensor lie within its storage, counted in elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct View {
    pub(crate) offset: usize,
    pub(crate) shape: Vec<usize>,
    pub(crate) strides: Vec<usize>,
}

impl View {
    /// Says why the view does not fit a storage of `elements`, if it does not.
    pub(crate) fn check(&self, elements: usize) -> std::result::Result<usize, String> {
        let Self { offset, shape, strides } = self;
        let count = crate::dtype::count(shape).ok_or_else(|| format!("shape {shape:?} overflows"))?;
        if count == 0 {
            return Ok(0);
        }
        let last = shape.iter().zip(strides).try_fold(*offset, |at, (&d, &s)| at.checked_add((d - 1).checked_mul(s)?));
        if last.is_none_or(|last| last >= elements) {
            return Err(format!(
                "shape {shape:?} with strides {strides:?} from {offset} on reaches beyond the {elements} elements of its storage"
            ));
        }
        if count > elements.max(MOST_REPEATED) {
            return Err(format!("shape {shape:?} repeats the {elements} elements of its storage too often"));
        }
        Ok(count)
    }

    /// Whether the elements lie side by side, in order.
    fn is_contiguous(&self) -> bool {
        let mut expected = 1;
        self.shape.iter().zip(&self.strides).rev().all(|(&d, &s)| {
            let fits = d <= 1 || s == expected;
            expected *= d;
            fits
        })
    }

    /// The bytes of the elements in order; a view that passed [`View::check`] finds all of them.
    pub(crate) fn of<'a>(&self, storage: &'a [u8], size: usize) -> Cow<'a, [u8]> {
        let count: usize = self.shape.iter().product();
        if count == 0 {
            return Cow::Borrowed(&[]);
        }
        if self.is_contiguous() {
            return Cow::Borrowed(&storage[self.offset * size..(self.offset + count) * size]);
        }
        let mut out = Vec::with_capacity(count * size);
        let mut index = vec![0; self.shape.len()];
        for _ in 0..count {
            let at = self.offset + index.iter().zip(&self.strides).map(|(i, s)| i * s).sum::<usize>();
            out.extend_from_slice(&storage[at * size..(at + 1) * size]);
            self.advance(&mut index);
        }
        Cow::Owned(out)
    }

    /// The next index, the last axis running fastest.
    fn advance(&self, index: &mut [usize]) {
        for (i, &d) in index.iter_mut().zip(&self.shape).rev() {
            *i += 1;
            if *i < d {
                return;
            }
            *i = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(offset: usize, shape: &[usize], strides: &[usize]) -> View {
        View { offset, shape: shape.to_vec(), strides: strides.to_vec() }
    }

    #[test]
    fn views_of_six_bytes() {
        let storage = [0, 1, 2, 3, 4, 5];
        let of = |v: View| v.check(6).map(|_| v.of(&storage, 1).into_owned());
        assert_eq!(of(view(0, &[2, 3], &[3, 1])).unwrap(), storage);
        assert_eq!(of(view(0, &[3, 2], &[1, 3])).unwrap(), [0, 3, 1, 4, 2, 5]); // transposed
        assert_eq!(of(view(1, &[3], &[2])).unwrap(), [1, 3, 5]);
        assert_eq!(of(view(4, &[3, 1], &[0, 9])).unwrap(), [4, 4, 4]); // expanded
        assert_eq!(of(view(5, &[], &[])).unwrap(), [5]);
        assert!(of(view(9, &[0, 4], &[4, 1])).unwrap().is_empty());
    }

    #[test]
    fn views_beyond_are_refused() {
        for bad in [
            view(6, &[], &[]),
            view(0, &[7], &[1]),
            view(1, &[2, 3], &[3, 1]),
            view(0, &[2], &[usize::MAX]),
            view(usize::MAX, &[2], &[1]),
            view(0, &[1 << 33, 1 << 33], &[0, 0]),
            view(0, &[MOST_REPEATED + 1], &[0]),
        ] {
            assert!(bad.check(6).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn wide_elements_stay_whole() {
        let transposed = view(0, &[2, 2], &[1, 2]).of(&[1, 1, 2, 2, 3, 3, 4, 4], 2).into_owned();
        assert_eq!(transposed, [1, 1, 3, 3, 2, 2, 4, 4]);
    }
}
