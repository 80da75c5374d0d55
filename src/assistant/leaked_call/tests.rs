//! Texts of models, and what they are.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn offered() -> Vec<ToolSpec> {
    ["get_weather", "send_message"]
        .map(|name| ToolSpec {
            name: name.to_owned(),
            description: String::new(),
            parameters: json!({"type": "object"}),
        })
        .to_vec()
}

fn calls(text: &str) -> (String, Vec<(String, Value)>) {
    match read(text, &offered()) {
        Reading::Calls { text, calls } => (text, calls),
        other => panic!("{text:?} was read as {other:?}"),
    }
}

#[test]
fn every_known_form_of_a_printed_call_is_taken() {
    let paris = vec![("get_weather".to_owned(), json!({"city": "Paris"}))];
    let forms = [
        r#"{"name": "get_weather", "arguments": {"city": "Paris"}}"#,
        r#"{"name": "get_weather", "parameters": {"city": "Paris"}}"#,
        r#"[{"name": "get_weather", "arguments": {"city": "Paris"}}]"#,
        r#"{"type": "function", "function": {"name": "get_weather", "arguments": {"city": "Paris"}}}"#,
        r#"{"id": "x", "name": "get_weather", "arguments": "{\"city\": \"Paris\"}"}"#,
        "```json\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}\n```",
        "```\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}```",
        "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}\n</tool_call>",
        "<tools>```json\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}```</tools>",
        "<function_call>{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}</function_call>",
    ];
    for form in forms {
        assert_eq!(calls(form), (String::new(), paris.clone()), "{form}");
    }
}

#[test]
fn several_calls_keep_their_order_and_the_text_around_them() {
    let one = r#"{"name": "get_weather", "arguments": {"city": "Rome"}}"#;
    let two = r#"{"name": "send_message", "arguments": {"to": "!a1b2c3d4", "text": "hi"}}"#;
    for form in [
        format!("{one}\n{two}"),
        format!("[{one}, {two}]"),
        format!("<tool_call>{one}</tool_call>\n<tool_call>{two}</tool_call>"),
        format!("<tool_call>\n{one}\n{two}\n</tool_call>"),
        format!("```json\n{one}\n```\n```json\n{two}\n```"),
    ] {
        let (_, calls) = calls(&form);
        let names: Vec<_> = calls.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["get_weather", "send_message"], "{form}");
    }
    assert_eq!(calls(&format!("Let me look. <tool_call>{one}</tool_call>")).0, "Let me look.");
    assert_eq!(calls(&format!("Let me look:\n```json\n{one}\n```")).0, "Let me look:");
}

#[test]
fn what_looks_like_a_call_and_is_none_is_unusable() {
    for text in [
        r#"{"name": "web_search", "arguments": {"query": "x"}}"#,
        r#"<tool_call>{"name": "web_search", "arguments": {"query": "x"}}</tool_call>"#,
        r#"<tool_call>{"name": "get_weather", "arguments": {city: Graz}}</tool_call>"#,
        r#"<tool_call>{"name": "get_weather", "arguments": {"city": "Par"#,
        r#"{"name": "get_weather", "arguments": {"city": "Par"#,
        r#"{"name": "get_weather"}"#,
        r#"{"name": "get_weather", "arguments": {}, "then": 1}"#,
        r#"{"name": "get_weather", "arguments": [1]}"#,
        r#"{"name": "get_weather", "arguments": "soon"}"#,
        r#"Sure: {"name": "get_weather", "arguments": {"city": "Paris"}}"#,
        r#"{'name': 'get_weather', 'arguments': {}}"#,
        r#"[{"name": "get_weather", "arguments": {}}, 3]"#,
        "```json\n{\"name\": \"web_search\", \"arguments\": {}}\n```",
        "```json\n{get_weather: Paris}\n```",
        "<function=get_weather><parameter=city>Paris</parameter></function>",
        "get_weather(city=\"Paris\")",
        "```tool_code\nget_weather()\n```",
        "[TOOL_CALLS]get_weather",
        "</tool_call>",
    ] {
        assert_eq!(read(text, &offered()), Reading::Unusable, "{text}");
    }
}

#[test]
fn answers_stay_answers() {
    for text in [
        "It is 18 C and sunny in Paris.",
        "The tool get_weather (if you have it) tells the weather.",
        r#"{"city": "Oslo", "temp_c": 10}"#,
        r#"{"name": "Ana", "age": 40}"#,
        "[1, 2, 3]",
        "```rust\nfn main() {}\n```",
        "Use `{}` for an empty object; his \"name\" and \"arguments\" convinced me.",
        "",
    ] {
        assert_eq!(read(text, &offered()), Reading::Text(text.to_owned()));
    }
}

#[test]
fn without_offered_tools_no_text_is_a_call() {
    let text = r#"{"name": "get_weather", "arguments": {}}"#;
    assert_eq!(read(text, &[]), Reading::Unusable);
}

#[test]
fn thoughts_are_taken_out() {
    for (content, left) in [
        ("<think>\nbriefly\n</think>\n\nHello.", "Hello."),
        ("<think></think>Hello.", "Hello."),
        ("A <think>b</think>c <think>d</think>e", "A c e"),
        ("thoughts without a beginning</think> Hello.", "Hello."),
        ("<think>only thoughts", ""),
        ("Hello.<think>cut", "Hello."),
        ("Hello.<|im_end|>\n", "Hello."),
        ("Hello.<|im_end|><|endoftext|>", "Hello."),
        (" ", ""),
        ("</think>", ""),
    ] {
        assert_eq!(without_thoughts(content), left, "{content}");
    }
}

#[test]
fn arguments_are_an_object_or_come_back() {
    assert_eq!(arguments_object(Value::Null), Ok(Map::new()));
    assert!(arguments_object(json!("{\"a\": 1}")).is_ok());
    for no in [json!("{\"a\": 1} and"), json!(""), json!("[1]"), json!(3), json!([{}])] {
        assert_eq!(arguments_object(no.clone()), Err(no));
    }
}

proptest! {
    #[test]
    fn no_text_is_too_strange_and_no_trace_is_shown(
        parts in prop::collection::vec(
            prop::sample::select(vec![
                "<tool_call>", "</tool_call>", "```", "json\n", "{\"name\":\"get_weather\",", "\"arguments\":{}}",
                "{}", "[", "]", "é", " ", "\n", "<think>", "</think>", "get_weather(", "word",
            ]),
            0..12,
        )
    ) {
        let text = without_thoughts(&parts.concat());
        match read(&text, &offered()) {
            Reading::Text(shown) => prop_assert!(!looks_like_call(&shown, &offered())),
            Reading::Calls { text, calls } => {
                prop_assert!(!looks_like_call(&text, &offered()));
                prop_assert!(!calls.is_empty());
            }
            Reading::Unusable => {}
        }
    }
}
