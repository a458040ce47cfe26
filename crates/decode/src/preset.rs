//! The orders and defaults of other tools, so that their users get their tools' answers.
//!
//! A preset is an order of steps with defaults; flags fill the places of that order. A step that does nothing by default is
//! left out of the printed chain until a flag gives it a value. A flag for a step that the tool does not have is an error, because
//! no place in its order would be right; `--chain` then says the order. Read from transformers 5.22 (`_get_logits_processor`:
//! processors, then warpers), llama.cpp (`common.h`), and KoboldCpp (`SampleLogits`; sampler order 6, 0, 1, 3, 4, 2, 5).

use std::fmt::{self, Display};
use std::str::FromStr;

use qkv_base::{Error, Result, nearest};

use crate::chain::{Chain, Part, split, unknown};
use crate::pick::Pick;
use crate::transform::{STEPS, Step, StepSheet, Transform};

/// A tool whose order and defaults to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// Hugging Face transformers with `do_sample=True`
    Hf,
    /// llama.cpp's `llama-cli`
    LlamaCpp,
    /// KoboldCpp's API
    Kobold,
}

/// The steps that forbid and force, in the order in which transformers runs them. The other two tools have few or none of
/// them; there they stand first, so that whatever comes after sees only what may be said.
const RULES: &str = "logit_bias, encoder_repetition_penalty, repetition_penalty, no_repeat_ngram, encoder_no_repeat_ngram, \
    bad_words, min_length, min_new_tokens, forced_prefix, forced_tokens, forced_bos, forced_eos, length_decay, suppress, \
    suppress_begin";
const RULES_FIRST: &str = "logit_bias, no_repeat_ngram, encoder_no_repeat_ngram, bad_words, min_length, min_new_tokens, \
    forced_prefix, forced_tokens, forced_bos, forced_eos, length_decay, suppress, suppress_begin";

impl Preset {
    /// All of them.
    pub const ALL: [Preset; 3] = [Preset::Hf, Preset::LlamaCpp, Preset::Kobold];

    /// Its name, as `--preset` takes it.
    pub fn name(self) -> &'static str {
        match self {
            Preset::Hf => "hf",
            Preset::LlamaCpp => "llama.cpp",
            Preset::Kobold => "kobold",
        }
    }

    /// The order: a bare name is a place to fill, a name with values a place that is filled already.
    fn order(self) -> String {
        match self {
            Preset::Hf => {
                format!("{RULES}, temperature 1, top_k 50, top_p 1, min_p 0, typical 1, epsilon_cutoff 0, eta_cutoff 0")
            }
            // Temperature comes last: what is left out is decided on the model's own probabilities.
            Preset::LlamaCpp => format!(
                "{RULES_FIRST}, repetition_penalty 1 window=64, frequency_penalty 0 window=64, presence_penalty 0 window=64, \
                 dry 0, top_n_sigma 0, top_k 40, typical 1, top_p 0.95, min_p 0.05, xtc 0.1 probability=0, temperature 0.8, \
                 dynamic_temperature"
            ),
            // DRY, then the 3,000 best; 6 repetition, 0 top-k, 1 top-a, 3 tail-free, 4 typical, 2 top-p and min-p, 5
            // temperature with what hangs on it; XTC last.
            Preset::Kobold => format!(
                "{RULES_FIRST}, dry 0 range=320, !top_k 3000, repetition_penalty 1 window=320, presence_penalty 0 window=320, \
                 top_k 100, top_a 0, tail_free 1, typical 1, top_p 0.92, min_p 0, temperature 0.75, dynamic_temperature, \
                 quadratic 0, top_n_sigma 0, xtc 0.2 probability=0"
            ),
        }
    }

    /// The steps that the tool still runs when Mirostat picks; none: all of them.
    fn with_mirostat(self) -> Option<&'static [&'static str]> {
        match self {
            Preset::Hf => None,
            Preset::LlamaCpp => Some(&["temperature", "dynamic_temperature"]),
            Preset::Kobold => Some(&["dry", "repetition_penalty", "presence_penalty", "temperature", "quadratic"]),
        }
    }

    /// The chain without any flag.
    pub fn chain(self) -> Chain {
        // The orders are ours, and a test reads each of them.
        self.with(&[]).unwrap_or_default()
    }

    /// The chain with flags, each written as a step or a pick: `top_k 20`, `repetition_penalty 1.1`, `greedy`. What a flag does
    /// not say stays as the tool has it.
    ///
    /// ```
    /// use qkv_decode::Preset;
    /// let chain = Preset::LlamaCpp.with(&["repetition_penalty 1.1", "temperature 1.2"]).unwrap();
    /// assert_eq!(
    ///     chain.to_string(),
    ///     "repetition_penalty 1.1 window=64, top_k 40, top_p 0.95, min_p 0.05, temperature 1.2, random",
    /// );
    /// ```
    pub fn with(self, flags: &[&str]) -> Result<Chain> {
        let (mut flags, pick) = sort_flags(flags)?;
        after_forced_bos(&mut flags);
        let order = self.order();
        let mut steps = Vec::new();
        let mut used = vec![false; flags.len()];
        for slot in order.split(", ").map(str::trim) {
            let fixed = slot.starts_with('!');
            let (name, defaults) = split(slot.trim_start_matches('!'));
            let flag = if fixed { None } else { flags.iter().position(|flag| flag.sheet.name == name) };
            if let Some(i) = flag {
                used[i] = true;
                steps.push(flags[i].over(name, &defaults)?);
            } else if let (false, Some(step)) = (defaults.is_empty(), Step::named(name, &defaults)) {
                let step = step?;
                if self.stays(&step, &flags, pick) {
                    steps.push(step);
                }
            }
        }
        match used.iter().position(|used| !used) {
            Some(i) => Err(self.has_no(flags[i].sheet, &Chain { steps, pick })),
            None => self.check_mirostat(&flags, pick).map(|()| Chain { steps, pick }),
        }
    }

    /// Whether a default belongs into the chain.
    fn stays(self, step: &Step, flags: &[Flag], pick: Pick) -> bool {
        let name = step.sheet().name;
        let dropped = match pick {
            // Without sampling the tools do not run them, and they would change nothing.
            Pick::Greedy => step.keeps_best(),
            Pick::Random => false,
            _ => self.with_mirostat().is_some_and(|runs| !runs.contains(&name) && step.to_string() != "top_k 3000"),
        };
        let moved = name == "temperature" && flags.iter().any(|flag| flag.sheet.name == "dynamic_temperature");
        !step.idle() && !dropped && !moved
    }

    /// A tool that leaves steps out under Mirostat gets no flag for them: it would be accepted and ignored.
    fn check_mirostat(self, flags: &[Flag], pick: Pick) -> Result<()> {
        let (Pick::Mirostat { .. } | Pick::Mirostat2 { .. }, Some(runs)) = (pick, self.with_mirostat()) else {
            return Ok(());
        };
        let rule = |name: &str| RULES_FIRST.split(", ").any(|rule| rule == name);
        match flags.iter().find(|flag| !runs.contains(&flag.sheet.name) && !rule(flag.sheet.name)) {
            None => Ok(()),
            Some(flag) => Err(Error::new(
                format!("`{}`", flag.sheet.flag()),
                format!("{} leaves {} out when mirostat picks", self.name(), flag.sheet.name),
                format!("say the order yourself: --chain \"{}, temperature 0.8, {pick}\"", flag.sheet.example),
            )),
        }
    }

    fn has_no(self, sheet: &StepSheet, chain: &Chain) -> Error {
        Error::new(
            format!("`{}`", sheet.flag()),
            format!("{} has no {} in its order", self.name(), sheet.name),
            format!("say the order yourself: --chain \"{}, {chain}\"", sheet.example),
        )
    }
}

impl Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Preset {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.to_lowercase().replace(['-', '_'], "").as_str() {
            "hf" | "transformers" | "huggingface" => Ok(Preset::Hf),
            "llama.cpp" | "llamacpp" | "llama" => Ok(Preset::LlamaCpp),
            "kobold" | "koboldcpp" | "koboldai" => Ok(Preset::Kobold),
            other => {
                let near = nearest(other, Preset::ALL.map(Preset::name)).unwrap_or_default();
                Err(Error::new("`--preset`", format!("there is no preset `{text}`"), format!("did you mean `{near}`?")))
            }
        }
    }
}

/// A flag that is a step: its sheet and what was said of it.
struct Flag<'a> {
    sheet: &'static StepSheet,
    words: Vec<&'a str>,
}

impl Flag<'_> {
    /// The step with the tool's defaults under what the flag says.
    fn over(&self, name: &str, defaults: &[&str]) -> Result<Step> {
        if defaults.is_empty() {
            return Step::named(name, &self.words).unwrap_or_else(|| Err(unknown(name)));
        }
        Step::named(name, defaults).unwrap_or_else(|| Err(unknown(name)))?.with(&self.words)
    }
}

/// Where the first new token is forced, the answer begins with the second.
fn after_forced_bos(flags: &mut [Flag]) {
    let forced = flags.iter().any(|flag| flag.sheet.name == "forced_bos");
    let begin = flags.iter_mut().find(|flag| flag.sheet.name == "suppress_begin" && flag.words.len() == 1);
    if let (true, Some(begin)) = (forced, begin) {
        begin.words.push("after=1");
    }
}

/// Steps and the pick apart; nothing is said twice.
fn sort_flags<'a>(flags: &[&'a str]) -> Result<(Vec<Flag<'a>>, Pick)> {
    let mut steps: Vec<Flag> = Vec::new();
    let mut pick = None;
    for text in flags {
        let (name, words) = split(text);
        let twice = |sheet: &StepSheet| Error::new(format!("`{}`", sheet.flag()), "is given twice", "give it once");
        if let Some(sheet) = STEPS.iter().find(|sheet| sheet.answers(name)) {
            if steps.iter().any(|flag| flag.sheet.name == sheet.name) {
                return Err(twice(sheet));
            }
            steps.push(Flag { sheet, words });
        } else if let Part::Pick(new) = Part::read(text)?
            && pick.replace(new).is_some()
        {
            return Err(Error::new(format!("`{}`", new.sheet().flag()), "only one pick can end the chain", "give one"));
        }
    }
    Ok((steps, pick.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(preset: Preset, flags: &[&str]) -> String {
        preset.with(flags).unwrap_or_else(|e| panic!("{e}; {}", e.hint)).to_string()
    }

    #[test]
    fn the_tools_defaults() {
        assert_eq!(chain(Preset::Hf, &[]), "top_k 50, random");
        assert_eq!(chain(Preset::LlamaCpp, &[]), "top_k 40, top_p 0.95, min_p 0.05, temperature 0.8, random");
        assert_eq!(chain(Preset::Kobold, &[]), "top_k 3000, top_k 100, top_p 0.92, temperature 0.75, random");
        for preset in Preset::ALL {
            assert_eq!(preset.chain(), preset.with(&[]).unwrap());
            assert_eq!(preset.name().parse::<Preset>().unwrap(), preset);
            // Every place of the order is a step's name, and every default is in range.
            for slot in preset.order().split(", ") {
                let (name, words) = split(slot.trim().trim_start_matches('!'));
                let known = STEPS.iter().any(|sheet| sheet.name == name);
                assert!(known && (words.is_empty() || Step::named(name, &words).unwrap().is_ok()), "{slot}");
            }
        }
    }

    #[test]
    fn flags_fill_the_tools_order() {
        let flags = ["temperature 0.7", "top_k 20", "min_p 0.1", "typical 0.9"];
        assert_eq!(chain(Preset::Hf, &flags), "temperature 0.7, top_k 20, min_p 0.1, typical 0.9, random");
        assert_eq!(
            chain(Preset::LlamaCpp, &flags),
            "top_k 20, typical 0.9, top_p 0.95, min_p 0.1, temperature 0.7, random"
        );
        assert_eq!(
            chain(Preset::Kobold, &flags),
            "top_k 3000, top_k 20, typical 0.9, top_p 0.92, min_p 0.1, temperature 0.7, random"
        );
        assert_eq!(
            chain(Preset::Hf, &["suppress 3", "repetition_penalty 1.2", "bad_words 4", "forced_bos 5", "top_k 0"]),
            "repetition_penalty 1.2, bad_words 4, forced_bos 5, suppress 3, top_k 0, random"
        );
        assert_eq!(
            chain(Preset::Hf, &["suppress_begin 3", "forced_bos 5"]),
            "forced_bos 5, suppress_begin 3 after=1, top_k 50, random"
        );
        // What a flag leaves open stays the tool's: KoboldCpp looks back over 320 tokens, llama.cpp over all.
        assert_eq!(
            chain(Preset::Kobold, &["dry 0.8", "top_k 0", "top_p 1", "temp 1"]).split(',').next(),
            Some("dry 0.8 range=320")
        );
        assert_eq!(chain(Preset::LlamaCpp, &["dry 0.8"]).split(',').next(), Some("dry 0.8"));
        assert!(chain(Preset::LlamaCpp, &["xtc probability=0.5"]).contains("xtc 0.1 probability=0.5"));
    }

    #[test]
    fn greedy_and_mirostat_leave_out_what_the_tools_do() {
        assert_eq!(chain(Preset::Hf, &["greedy", "repetition_penalty 1.2"]), "repetition_penalty 1.2, greedy");
        assert_eq!(chain(Preset::LlamaCpp, &["mirostat2 3", "suppress 1"]), "suppress 1, temperature 0.8, mirostat2 3");
        assert_eq!(
            chain(Preset::Kobold, &["mirostat", "rep_pen 1.1"]),
            "top_k 3000, repetition_penalty 1.1 window=320, temperature 0.75, mirostat 5"
        );
        assert_eq!(
            chain(Preset::LlamaCpp, &["dynatemp 0.5 1.5"]),
            "top_k 40, top_p 0.95, min_p 0.05, dynamic_temperature 0.5 max=1.5, random"
        );
    }

    #[test]
    fn errors_say_what_to_do() {
        for (preset, flags, message, hint) in [
            (Preset::Hf, &["dry 0.8"][..], "`--dry`: hf has no dry in its order", "--chain \"dry 0.8"),
            (Preset::LlamaCpp, &["tail_free 0.9"], "llama.cpp has no tail_free", "--chain"),
            (Preset::LlamaCpp, &["mirostat", "top_k 5"], "llama.cpp leaves top_k out when mirostat picks", "--chain"),
            (Preset::Hf, &["top_k 4", "top-k 5"], "`--top-k`: is given twice", "once"),
            (Preset::Hf, &["greedy", "random"], "only one pick", "one"),
            (Preset::Hf, &["top_z 4"], "there is no such step", "top_k"),
            (Preset::Hf, &["top_p 2"], "p is `2`, but must be a number from 0 to 1", "0.95"),
        ] {
            let error = preset.with(flags).unwrap_err();
            assert!(error.to_string().contains(message), "{error}");
            assert!(error.hint.contains(hint), "{}", error.hint);
        }
        assert!("lama.cpp".parse::<Preset>().unwrap_err().hint.contains("`llama.cpp`"));
    }
}
