//! BERT's tokenizer: clean, lower case without accents, split at spaces and punctuation, longest pieces first.

use serde_json::Value;
use std::collections::HashMap;
use std::error::Error;
use unicode_categories::UnicodeCategories;
use unicode_normalization::UnicodeNormalization;

const LONGEST_WORD: usize = 100;

pub struct Tokenizer {
    vocabulary: HashMap<String, i64>,
    lowercase: bool,
    unknown: i64,
    first: i64,
    last: i64,
}

impl Tokenizer {
    pub fn new(content: &Value) -> Result<Tokenizer, Box<dyn Error>> {
        let is = |value: &Value, name: &str| value["type"].as_str() == Some(name);
        if !is(&content["model"], "WordPiece") || !is(&content["normalizer"], "BertNormalizer") {
            return Err("this example reads BERT's tokenizers only".into());
        }
        let pieces = content["model"]["vocab"].as_object().ok_or("no vocabulary")?;
        let vocabulary: HashMap<String, i64> =
            pieces.iter().filter_map(|(piece, id)| Some((piece.clone(), id.as_i64()?))).collect();
        let special = |name: &str| vocabulary.get(name).copied().ok_or(format!("no {name}"));
        Ok(Tokenizer {
            lowercase: content["normalizer"]["lowercase"].as_bool().unwrap_or(true),
            unknown: special("[UNK]")?,
            first: special("[CLS]")?,
            last: special("[SEP]")?,
            vocabulary,
        })
    }

    /// Returns token ids, with the special tokens at both ends.
    pub fn encode(&self, text: &str, max_length: usize) -> Vec<i64> {
        let mut ids = vec![self.first];
        for word in self.words(text) {
            self.split(&word, &mut ids);
        }
        ids.truncate(max_length - 1);
        ids.push(self.last);
        ids
    }

    fn words(&self, text: &str) -> Vec<String> {
        let clean: String = text
            .chars()
            .filter(|one| matches!(one, '\t' | '\n' | '\r') || !(*one == '\u{fffd}' || one.is_other()))
            .map(|one| if one.is_whitespace() { ' ' } else { one })
            .flat_map(|one| if is_cjk(one) { vec![' ', one, ' '] } else { vec![one] })
            .collect();
        let normal: String = if self.lowercase {
            let bare: String = clean.nfd().filter(|one| !one.is_mark_nonspacing()).collect();
            bare.chars().flat_map(char::to_lowercase).collect()
        } else {
            clean
        };
        let mut words: Vec<String> = Vec::new();
        for part in normal.split_whitespace() {
            let mut is_inside = false;
            for one in part.chars() {
                if is_punctuation(one) {
                    words.push(one.to_string());
                    is_inside = false;
                } else if is_inside {
                    words.last_mut().expect("a word was begun").push(one);
                } else {
                    words.push(one.to_string());
                    is_inside = true;
                }
            }
        }
        words
    }

    fn split(&self, word: &str, ids: &mut Vec<i64>) {
        let characters: Vec<char> = word.chars().collect();
        if characters.len() > LONGEST_WORD {
            return ids.push(self.unknown);
        }
        let (mut pieces, mut start) = (Vec::new(), 0);
        while start < characters.len() {
            let found = (start + 1..=characters.len()).rev().find_map(|end| {
                let piece: String = characters[start..end].iter().collect();
                let piece = if start > 0 { format!("##{piece}") } else { piece };
                Some((*self.vocabulary.get(&piece)?, end))
            });
            match found {
                Some((id, end)) => {
                    pieces.push(id);
                    start = end;
                }
                None => return ids.push(self.unknown),
            }
        }
        ids.extend(pieces);
    }
}

fn is_cjk(one: char) -> bool {
    matches!(one as u32, 0x4e00..=0x9fff | 0x3400..=0x4dbf | 0x20000..=0x2a6df | 0x2a700..=0x2b73f
        | 0x2b740..=0x2b81f | 0x2b920..=0x2ceaf | 0xf900..=0xfaff | 0x2f800..=0x2fa1f)
}

fn is_punctuation(one: char) -> bool {
    one.is_ascii_punctuation() || UnicodeCategories::is_punctuation(one)
}
