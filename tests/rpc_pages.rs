//! The pages and their headers, and what is not there.

use serde_json::json;

use crate::rpc_node::{Node, folder};

#[tokio::test]
async fn the_pages_come_with_their_policies() {
    let folder = folder();
    let node = Node::start(folder.path()).await;
    let host = node.host();
    for (path, parts, absent) in [
        (
            "/",
            vec![
                "default-src 'none'",
                "script-src 'self'",
                "style-src 'self'",
                "connect-src 'self'",
                "img-src 'self' data:",
                "frame-src 'self'",
                "frame-ancestors 'none'",
                "base-uri 'none'",
                "form-action 'none'",
            ],
            vec!["unsafe", "sandbox", "*"],
        ),
        (
            "/aiui/",
            vec![
                "default-src 'none'",
                "connect-src 'none'",
                "frame-ancestors 'self'",
                "sandbox allow-scripts",
                "base-uri 'none'",
                "form-action 'none'",
            ],
            vec!["unsafe", "allow-same-origin", "allow-forms", "allow-popups", "*", "img-src"],
        ),
        (
            "/chat/",
            vec!["default-src 'none'", "connect-src 'self'", "frame-ancestors 'none'"],
            vec!["unsafe", "sandbox", "frame-src", "*"],
        ),
    ] {
        let answer = node.get(path).await;
        assert_eq!(answer.status, 200, "{path}");
        assert_eq!(answer.header("content-type"), Some("text/html; charset=utf-8"));
        let policy = answer.header("content-security-policy").unwrap();
        let directives: Vec<&str> = policy.split(';').map(str::trim).collect();
        for part in parts {
            assert!(directives.contains(&part), "{path}: {part} in {policy}");
        }
        for word in absent {
            assert!(!policy.contains(word), "{path}: {word} in {policy}");
        }
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
            ("cross-origin-opener-policy", "same-origin"),
            ("cache-control", "no-store"),
        ] {
            assert_eq!(answer.header(name), Some(value), "{path} {name}");
        }
        assert!(answer.header("permissions-policy").unwrap().contains("microphone=()"));
        assert!(answer.header("access-control-allow-origin").is_none(), "{path}");
        // No inline script or style, which the policy would refuse.
        assert!(!answer.body.contains("<style") && !answer.body.contains("onclick="), "{path}");
        assert!(!answer.body.contains("<script>"), "{path}");
    }
    let policy = node.get("/aiui/").await;
    let policy = policy.header("content-security-policy").unwrap();
    assert!(policy.contains(&format!("script-src 'self' http://{host} ")), "{policy}");
    node.stop().await;
}

#[tokio::test]
async fn every_file_that_a_page_names_is_served_and_cached_by_its_content() {
    let folder = folder();
    let node = Node::start(folder.path()).await;
    let mut seen = 0;
    for (page, open) in [("/", false), ("/aiui/", true)] {
        let html = node.get(page).await.body;
        for quoted in html.split('"').filter(|text| text.starts_with('/') && text.contains('.')) {
            let answer = node.get(quoted).await;
            assert_eq!(answer.status, 200, "{quoted}");
            let kind = answer.header("content-type").unwrap();
            let wanted = match quoted.rsplit('.').next() {
                Some("js") => "text/javascript; charset=utf-8",
                Some("css") => "text/css; charset=utf-8",
                _ => "image/svg+xml",
            };
            assert_eq!(kind, wanted, "{quoted}");
            let frame_file = quoted.starts_with("/aiui/");
            let anyone = answer.header("access-control-allow-origin");
            assert_eq!(anyone, frame_file.then_some("*"), "{quoted}");
            assert!(frame_file || !open, "the frame loads nothing else: {quoted}");
            let etag = answer.header("etag").unwrap();
            assert_eq!(answer.header("cache-control"), Some("no-cache"));
            let again = node.request("GET", quoted).header("If-None-Match", etag).send().await;
            assert_eq!((again.status, again.body.as_str()), (304, ""), "{quoted}");
            let other = node.request("GET", quoted).header("If-None-Match", "\"x\"").send().await;
            assert_eq!(other.status, 200);
            seen += 1;
        }
    }
    assert!(seen >= 4, "{seen}");
    node.stop().await;
}

#[tokio::test]
async fn pages_and_files_come_compressed_to_whoever_takes_that() {
    let folder = folder();
    let node = Node::start(folder.path()).await;
    for path in ["/", "/aiui/", "/chat/", "/main.js", "/aiui/palette.css"] {
        let head = async |coding: &str| {
            let answer = node.request("HEAD", path).header("Accept-Encoding", coding).send().await;
            assert_eq!(answer.status, 200, "{path}");
            assert_eq!(answer.header("vary"), Some("Accept-Encoding"), "{path}");
            let length: usize = answer.header("content-length").unwrap().parse().unwrap();
            let header = |name| answer.header(name).map(str::to_owned);
            (header("content-encoding"), length, header("etag"))
        };
        let (plain, whole, etag) = head("br, identity").await;
        assert_eq!(plain, None, "{path}");
        for coding in ["gzip", "deflate, GZIP;q=0.5, br", "br , gzip ; q=1"] {
            let (packed, length, packed_etag) = head(coding).await;
            assert_eq!(packed.as_deref(), Some("gzip"), "{path} {coding}");
            assert!(length < whole, "{path}: {length} of {whole}");
            assert!(etag.is_none() || packed_etag != etag, "{path}: another form, another name");
        }
        for coding in ["gzip;q=0", "gzip; q=0.000", "*", "gzipped", ""] {
            assert_eq!(head(coding).await.0, None, "{path} {coding}");
        }
        if let (_, _, Some(etag)) = head("gzip").await {
            let again = node.request("GET", path).header("If-None-Match", &etag).send().await;
            assert_eq!((again.status, again.body.as_str()), (304, ""), "{path}");
        }
    }
    node.stop().await;
}

#[tokio::test]
async fn what_is_not_there_is_404_and_a_wrong_method_405() {
    let folder = folder();
    let node = Node::start(folder.path()).await;
    for path in [
        "/nothing",
        "/node/",
        "/node/index.html",
        "/aiui/index.html",
        "/node/../secrets/operator-password",
        "/node/..%2f..%2fCargo.toml",
        "/aiui/%2e%2e/main.js",
        "/rpc/",
        "/tsconfig.json",
        "/index.html",
        "/node/main.js",
        "/events/",
        "//healthz",
    ] {
        let answer = node.get(path).await;
        assert_eq!(answer.status, 404, "{path}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    }
    for (method, path) in [
        ("GET", "/rpc"),
        ("PUT", "/rpc"),
        ("OPTIONS", "/rpc"),
        ("POST", "/"),
        ("POST", "/healthz"),
        ("POST", "/events"),
        ("DELETE", "/aiui/"),
    ] {
        let answer = node.request(method, path).send().await;
        assert_eq!(answer.status, 405, "{method} {path}");
        assert!(answer.header("allow").is_some());
    }
    node.stop().await;
}

#[tokio::test]
async fn health_says_states_and_counts_and_nothing_else() {
    let folder = folder();
    let node = Node::start(folder.path()).await;
    let answer = node.get("/healthz").await;
    assert_eq!(answer.status, 200);
    let body = answer.json();
    assert_eq!(body["status"], "serving");
    assert_eq!(body["link"], json!({ "connected": true, "sending_paused": false }));
    assert_eq!(body["backend"], json!({ "ollama": false, "claude": false }));
    assert_eq!(body["queue"]["turns_waiting"], 2);
    // Strings are words of ours: no name, no path, no text.
    fn texts(value: &serde_json::Value, all: &mut Vec<String>) {
        match value {
            serde_json::Value::String(text) => all.push(text.clone()),
            serde_json::Value::Array(items) => items.iter().for_each(|item| texts(item, all)),
            serde_json::Value::Object(items) => items.values().for_each(|item| texts(item, all)),
            _ => {}
        }
    }
    let mut all = Vec::new();
    texts(&body, &mut all);
    for text in all {
        assert!(["serving", "up", "down", "off", "unknown"].contains(&text.as_str()), "{text}");
    }
    node.stop().await;
}
