//! How requests come in: what can never fit is refused at the door, what does not fit now waits, and what others have computed
//! is not computed again.

use super::{Engine, Live, Phase, Request, RequestId, Waiting};
use crate::draft::Drafting;
use crate::search::Machine;
use qkv_base::{Error, Result};

impl Engine {
    /// Takes a request in; it begins with the next step for which there is room.
    pub fn admit(&mut self, request: Request) -> Result<RequestId> {
        request.check(&*self.model, self.detokenizer.is_some())?;
        let (rows, tokens) = (request.search.rows(), needs(&request));
        if rows > self.config.max_rows {
            let what = format!("it needs {rows} rows side by side, but the engine holds {}", self.config.max_rows);
            return Err(Error::new("request", what, "ask for fewer continuations or a narrower beam"));
        }
        if tokens > self.config.max_tokens {
            let what =
                format!("its {rows} rows may come to {tokens} tokens, but the engine holds {}", self.config.max_tokens);
            return Err(Error::new("request", what, "ask for fewer tokens, or shorten the prompt"));
        }
        let id = RequestId(self.next_id);
        self.next_id += 1;
        self.waiting.push_back(Waiting { id, request });
        Ok(id)
    }

    /// Gives rows to those that have waited longest, as far as there is room.
    pub(super) fn promote(&mut self) -> Result<()> {
        let mut rows: usize = self.live.iter().map(|live| live.request.search.rows()).sum();
        let mut tokens: usize = self.live.iter().map(|live| needs(&live.request)).sum();
        let mut new = vec![];
        while let Some(next) = self.waiting.front() {
            rows = rows.saturating_add(next.request.search.rows());
            tokens = tokens.saturating_add(needs(&next.request));
            if rows > self.config.max_rows || tokens > self.config.max_tokens {
                break;
            }
            new.extend(self.waiting.pop_front());
        }
        if new.is_empty() {
            return Ok(());
        }
        self.cache.grow(new.iter().map(|w| w.request.longest()).max().unwrap_or(0));
        let sources = self.read_sources(&new)?;
        for (Waiting { id, request }, source) in new.into_iter().zip(sources) {
            let row = self.cache.admit(source);
            if let Some(adapter) = request.adapter {
                self.cache.adapt(row, adapter);
            }
            let machine = Machine::new(&request, self.detokenizer.as_deref());
            let borrow = self.donor(&request, source);
            let kept = self.put_kept(&request, row, borrow.map_or(0, |(_, n)| n));
            let phase = Phase::Prefill { done: kept, borrow: borrow.filter(|_| kept == 0) };
            let (guesses, drafting) = (vec![], Drafting::new());
            let said = vec![];
            self.live.push(Live {
                id,
                request,
                machine,
                said,
                rows: 1,
                phase,
                source,
                cached: kept,
                guesses,
                drafting,
            });
        }
        Ok(())
    }

    /// The slot of the source of each; those that nobody has read yet are read together.
    fn read_sources(&mut self, new: &[Waiting]) -> Result<Vec<Option<usize>>> {
        let known = |source: &[u32]| {
            let same = |live: &&Live| live.request.source.as_deref() == Some(source);
            self.live.iter().find(same).and_then(|live| live.source)
        };
        let mut unread: Vec<&[u32]> = vec![];
        for source in new.iter().filter_map(|w| w.request.source.as_deref()) {
            if known(source).is_none() && !unread.contains(&source) {
                unread.push(source);
            }
        }
        let slots = if unread.is_empty() { vec![] } else { self.model.encode(&unread, &mut self.cache)? };
        let slot = |w: &Waiting| {
            let source = w.request.source.as_deref()?;
            let here = unread.iter().position(|s| *s == source).and_then(|at| slots.get(at).copied());
            here.or_else(|| self.live.iter().find(|l| l.request.source.as_deref() == Some(source))?.source)
        };
        Ok(new.iter().map(slot).collect())
    }

    /// Whose prompt begins like this one, and how many tokens of it are worth having.
    fn donor(&self, request: &Request, source: Option<usize>) -> Option<(RequestId, usize)> {
        // Who looks at hidden states needs those of the whole prompt.
        if request.search.observe().hidden || !self.cache.can_share_prefix() {
            return None;
        }
        let shared = |live: &Live| {
            let same = request.prompt.iter().zip(&live.request.prompt).take_while(|(a, b)| a == b).count();
            same.min(request.prompt.len() - 1) // the last token's logits are wanted
        };
        // With another adapter the same tokens have other keys.
        let all = self.live.iter().filter(|live| live.source == source && live.request.adapter == request.adapter);
        let best = all.map(|live| (shared(live), live)).max_by_key(|(n, live)| (*n, std::cmp::Reverse(live.id)));
        best.filter(|(n, _)| *n >= self.config.min_shared_prefix.max(1)).map(|(n, live)| (live.id, n))
    }

    /// Begins a row with what is kept of a prompt like its own, if that is worth it and more than `otherwise`; how much it was.
    fn put_kept(&mut self, request: &Request, row: usize, otherwise: usize) -> usize {
        if request.source.is_some() || request.search.observe().hidden || !self.cache.can_share_prefix() {
            return 0;
        }
        let shared = self.prefixes.shared(&request.prompt, request.adapter).min(request.prompt.len() - 1);
        if shared < self.config.min_shared_prefix.max(1) || shared < otherwise {
            return 0;
        }
        match self.prefixes.take(&request.prompt, request.adapter) {
            Some(prefix) => self.cache.put_prefix(row, prefix, shared),
            None => return 0,
        }
        shared
    }

    /// Keeps the prompt of a request that ends, as far as it was read, for those who will begin alike.
    pub(super) fn keep_prompt(&mut self, live: &Live, row: usize) {
        let read = match live.phase {
            Phase::Prefill { done, .. } => done,
            Phase::Tokens(_) => live.request.prompt.len(),
        };
        if live.request.source.is_some() || read < self.config.min_shared_prefix || live.rows == 0 {
            return;
        }
        let (cache, bytes) = (&self.cache, self.cache.token_bytes());
        if bytes > 0 {
            let copy = |n: usize| cache.copy_prefix(row, n);
            self.prefixes.keep(&live.request.prompt[..read], live.request.adapter, copy, bytes);
        }
    }

    /// Takes the beginning of its prompt from the row that has it, once that has read it; `first` is its own row.
    pub(super) fn borrow_prefix(&mut self, i: usize, first: usize) {
        let Phase::Prefill { borrow: Some((id, n)), .. } = self.live[i].phase else { return };
        let mut row = 0;
        for live in &self.live[..i] {
            if live.id == id {
                let read = match live.phase {
                    Phase::Prefill { done, .. } => done,
                    Phase::Tokens(_) => live.request.prompt.len(),
                };
                if read < n {
                    return; // not yet
                }
                // A state that cannot be cut (it became known with the first pass) is not taken.
                let done = if self.cache.can_share_prefix() { n } else { 0 };
                if done > 0 {
                    self.cache.share_prefix(row, first, n);
                }
                self.live[i].phase = Phase::Prefill { done, borrow: None };
                self.live[i].cached = done;
                return;
            }
            row += live.rows;
        }
        // It has left before it came so far.
        self.live[i].phase = Phase::Prefill { done: 0, borrow: None };
    }
}

/// How many tokens a request may come to hold.
fn needs(request: &Request) -> usize {
    request.search.rows().saturating_mul(request.longest())
}
