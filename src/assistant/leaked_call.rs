//! Calls that a model printed as text instead of making them.
//!
//! Owns the decision whether a text is a call, an answer, or neither. What is neither is shown to nobody.
//! Carries out nothing: a call found here is checked like any other.

use serde_json::{Map, Value};

use super::backends::ToolSpec;

/// The tags around a printed call, as the models' own templates write them.
const TAGS: [(&str, &str); 3] = [
    ("<tool_call>", "</tool_call>"),
    ("<function_call>", "</function_call>"),
    ("<tools>", "</tools>"),
];
/// What gives away a call in a form that is not taken.
const TRACES: [&str; 10] = [
    "<tool_call",
    "</tool_call",
    "<function_call",
    "</function_call",
    "<function=",
    "<tools>",
    "</tools>",
    "[TOOL_CALLS]",
    "<|python_tag|>",
    "<|tool_call",
];
/// Marks of a template that small models let through at the end of their turn; what follows is another's turn, made up.
const TURN_ENDS: [&str; 4] = ["<|im_end|>", "<|im_start|>", "<|eot_id|>", "<|endoftext|>"];
/// The same, where they stand at the very end.
const ENDINGS: [&str; 1] = ["</s>"];
const FENCE: &str = "```";
/// More calls than this in one text are no call.
const MAX_PRINTED: usize = 64;

/// What a text is.
#[derive(Debug, Clone, PartialEq)]
pub enum Reading {
    /// An answer.
    Text(String),
    /// Calls, as name and arguments, and the text around them.
    Calls {
        /// Without the calls; may be empty.
        text: String,
        /// In order; each names an offered tool.
        calls: Vec<(String, Value)>,
    },
    /// It looks like a call and isn't one.
    Unusable,
}

/// Reads a model's text. A call must parse exactly and name an offered tool.
pub fn read(text: &str, offered: &[ToolSpec]) -> Reading {
    let text = text.trim();
    if let Some(calls) = parse(text, offered) {
        return Reading::Calls { text: String::new(), calls };
    }
    let Some((mut around, mut calls)) = tagged(text, offered) else { return Reading::Unusable };
    if calls.is_empty() {
        (around, calls) = fenced(text, offered);
    }
    if calls.is_empty() {
        return if looks_like_call(text, offered) {
            Reading::Unusable
        } else {
            Reading::Text(text.to_owned())
        };
    }
    let around = around.trim();
    let text = if looks_like_call(around, offered) { "" } else { around };
    Reading::Calls { text: text.to_owned(), calls }
}

/// A model's text without its thoughts and without marks of its template.
pub fn without_thoughts(content: &str) -> String {
    const OPEN: &str = "<think>";
    const CLOSE: &str = "</think>";
    let mut kept = String::new();
    let mut rest = content;
    loop {
        match (rest.find(OPEN), rest.find(CLOSE)) {
            (Some(open), close) if close.is_none_or(|close| open < close) => {
                let (before, thoughts) = rest.split_at(open);
                kept.push_str(before);
                match thoughts.split_once(CLOSE) {
                    Some((_, after)) => rest = after,
                    // Never closed: nothing but thoughts came.
                    None => break,
                }
            }
            // No opening any more: the last close ends the thoughts.
            (None, Some(_)) => {
                kept.clear();
                rest = rest.rsplit_once(CLOSE).map_or("", |(_, after)| after);
            }
            // The opening stood in the prompt: all before was thought.
            (_, Some(_)) => {
                kept.clear();
                rest = rest.split_once(CLOSE).map_or("", |(_, after)| after);
            }
            _ => {
                kept.push_str(rest);
                break;
            }
        }
    }
    let end = TURN_ENDS.iter().filter_map(|mark| kept.find(mark)).min().unwrap_or(kept.len());
    let mut text = kept.get(..end).unwrap_or_default().trim();
    while let Some(shorter) = ENDINGS.iter().find_map(|ending| text.strip_suffix(ending)) {
        text = shorter.trim_end();
    }
    text.to_owned()
}

/// Did the model end its turn itself, and was only not stopped there?
pub fn ends_itself(content: &str) -> bool {
    TURN_ENDS.iter().any(|mark| content.contains(mark))
}

/// Does it look like an attempt at a call, in whatever form?
pub fn looks_like_call(text: &str, offered: &[ToolSpec]) -> bool {
    if TRACES.iter().any(|trace| text.contains(trace)) {
        return true;
    }
    if is_key(text, "name") && (is_key(text, "arguments") || is_key(text, "parameters")) {
        return true;
    }
    let names = |part: &str| offered.iter().any(|tool| part.contains(tool.name.as_str()));
    let open = |part: &str| part.trim_start().starts_with(['{', '[']);
    // A broken or a half object that names a tool, on its own or in a fence.
    if names(text)
        && (open(text) || text.split(FENCE).skip(1).step_by(2).any(|part| open(body(part))))
    {
        return true;
    }
    // `tool(…)` on a line of its own.
    text.lines().any(|line| {
        offered.iter().any(|tool| {
            line.trim_start()
                .strip_prefix(tool.name.as_str())
                .is_some_and(|rest| rest.starts_with('('))
        })
    })
}

/// Does the text have that key, in either quotes, with a colon after it?
fn is_key(text: &str, key: &str) -> bool {
    ['"', '\''].iter().any(|quote| {
        let quoted = format!("{quote}{key}{quote}");
        text.match_indices(&quoted).any(|(at, found)| {
            text.get(at + found.len()..).is_some_and(|rest| rest.trim_start().starts_with(':'))
        })
    })
}

/// Takes the calls out of their tags. `None`: a tag holds something else or is not closed.
fn tagged(text: &str, offered: &[ToolSpec]) -> Option<(String, Vec<(String, Value)>)> {
    let (mut around, mut calls, mut rest) = (String::new(), Vec::new(), text);
    loop {
        let next = TAGS
            .iter()
            .filter_map(|(open, close)| rest.find(open).map(|at| (at, *open, *close)))
            .min_by_key(|(at, ..)| *at);
        let Some((at, open, close)) = next else { break };
        let (before, from) = rest.split_at(at);
        let (inner, after) = from.strip_prefix(open)?.split_once(close)?;
        calls.extend(parse(inner, offered)?);
        if calls.len() > MAX_PRINTED {
            return None;
        }
        around.push_str(before);
        rest = after;
    }
    around.push_str(rest);
    Some((around, calls))
}

/// Takes the calls out of code fences; a fence that holds something else stays text.
fn fenced(text: &str, offered: &[ToolSpec]) -> (String, Vec<(String, Value)>) {
    let (mut around, mut calls, mut rest) = (String::new(), Vec::new(), text);
    while let Some((before, from)) = rest.split_once(FENCE) {
        let Some((inner, after)) = from.split_once(FENCE) else { break };
        around.push_str(before);
        match parse(body(inner), offered) {
            Some(found) => calls.extend(found),
            None => around.push_str(&format!("{FENCE}{inner}{FENCE}")),
        }
        rest = after;
    }
    around.push_str(rest);
    (around, calls)
}

/// What a fence holds, without the language in its first line.
fn body(fence: &str) -> &str {
    match fence.split_once('\n') {
        Some((language, body)) if !language.contains(['{', '[']) => body,
        _ => fence,
    }
}

/// One or more JSON values, each a call or an array of calls, and nothing else.
fn parse(text: &str, offered: &[ToolSpec]) -> Option<Vec<(String, Value)>> {
    let text = text.trim();
    let text = match text.strip_prefix(FENCE).and_then(|inner| inner.strip_suffix(FENCE)) {
        Some(inner) => body(inner),
        None => text,
    };
    let mut calls = Vec::new();
    for value in serde_json::Deserializer::from_str(text).into_iter::<Value>() {
        match value.ok()? {
            Value::Array(values) => {
                for value in values {
                    calls.push(call(value, offered)?);
                }
            }
            value => calls.push(call(value, offered)?),
        }
    }
    (!calls.is_empty()).then_some(calls)
}

/// `{"name", "arguments" or "parameters"}`, or that below `function`; no other keys than `id` and `type`.
fn call(value: Value, offered: &[ToolSpec]) -> Option<(String, Value)> {
    let Value::Object(mut object) = value else { return None };
    object.remove("id");
    if object.get("type").is_some_and(|kind| kind == "function") {
        object.remove("type");
    }
    if object.len() == 1
        && let Some(Value::Object(inner)) = object.remove("function")
    {
        object = inner;
    }
    let Some(Value::String(name)) = object.remove("name") else { return None };
    let arguments = object.remove("arguments").or_else(|| object.remove("parameters"))?;
    let arguments = arguments_object(arguments).ok()?;
    let known = offered.iter().any(|tool| tool.name == name);
    (object.is_empty() && known).then_some((name, Value::Object(arguments)))
}

/// The arguments of a call: an object as it is; nothing is no arguments; a string only if all of it is
/// one object, as OpenAI's form has it. Else the value comes back.
pub fn arguments_object(value: Value) -> Result<Map<String, Value>, Value> {
    match value {
        Value::Object(object) => Ok(object),
        Value::Null => Ok(Map::new()),
        Value::String(text) => serde_json::from_str(&text).map_err(|_| Value::String(text)),
        other => Err(other),
    }
}

#[cfg(test)]
mod tests;
