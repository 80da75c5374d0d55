//! The web server: the embedded pages, `/rpc` and `/healthz`.
//!
//! Owns the routes, the check of `Host` before all of them, and the security headers after all of them.
//! Decides nothing about a call: that is RPC's.

pub mod assets;
pub mod connection;
pub mod headers;
pub mod health;
pub mod hosts;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::rpc::{self, Services};
use assets::Asset;
use connection::Peer;
use headers::Kind;

#[derive(Clone)]
struct Site {
    services: Arc<Services>,
    node: Arc<Vec<Asset>>,
    aiui: Arc<Vec<Asset>>,
}

/// Everything that is served.
pub fn router(services: Arc<Services>) -> Router {
    let site = Site {
        services: Arc::clone(&services),
        node: Arc::new(assets::node()),
        aiui: Arc::new(assets::aiui()),
    };
    let rpc = Router::new().route("/rpc", post(rpc::http::post)).with_state(Arc::clone(&services));
    Router::new()
        .route("/", get(node_page))
        .route("/node/{file}", get(node_file))
        .route("/aiui", get(async || Redirect::permanent("/aiui/")))
        .route("/aiui/", get(frame_page))
        .route("/aiui/{file}", get(aiui_file))
        .route("/chat", get(async || Redirect::permanent("/chat/")))
        .route("/chat/", get(chat_page))
        .route("/healthz", get(healthz))
        .with_state(site)
        .merge(rpc)
        .fallback(async || StatusCode::NOT_FOUND)
        .layer(middleware::from_fn_with_state(services, guard))
}

/// Serves until `cancel`; then stops the operator's turns and lets requests in flight end.
pub async fn serve(listener: TcpListener, services: Arc<Services>, cancel: CancellationToken) {
    let router = router(Arc::clone(&services));
    let stopping = async {
        cancel.cancelled().await;
        services.turns.stop_all();
    };
    tokio::join!(connection::accept(listener, router, cancel.clone()), stopping);
}

/// Around every route: nothing is looked at under a foreign name, and nothing leaves without its headers.
async fn guard(State(services): State<Arc<Services>>, request: Request, next: Next) -> Response {
    let Some(host) = services.hosts.of(request.uri(), request.headers()).map(str::to_owned) else {
        let mut response =
            (StatusCode::FORBIDDEN, "this is not a name of the node (key http.hosts)")
                .into_response();
        headers::set(response.headers_mut(), Kind::Data, "");
        return response;
    };
    let mut response = next.run(request).await;
    let kind = response.extensions().get::<Kind>().copied().unwrap_or(Kind::Data);
    headers::set(response.headers_mut(), kind, &host);
    response
}

/// The node page; with `?login=TOKEN`, a one-time link: it sets the cookie and leads to the page without
/// the token in its address.
async fn node_page(
    State(site): State<Site>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    peer: Option<axum::Extension<Peer>>,
) -> Response {
    let token = uri.query().and_then(|query| query.strip_prefix("login="));
    let Some(token) = token.filter(|_| method == Method::GET) else {
        return page(&site.node, Kind::NodePage);
    };
    let client = rpc::http::client(&headers, peer.as_deref());
    let mut response = Redirect::to("/").into_response();
    if let Some(new) = site.services.auth.redeem_link(token, &client).await {
        rpc::http::set_cookie(&mut response, &new.token, false);
    }
    response
}

async fn frame_page(State(site): State<Site>) -> Response {
    page(&site.aiui, Kind::Frame)
}

async fn chat_page(State(site): State<Site>) -> Response {
    page(&site.aiui, Kind::ChatPage)
}

async fn node_file(
    State(site): State<Site>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Response {
    file(&site.node, &name, Kind::NodeFile, &headers)
}

async fn aiui_file(
    State(site): State<Site>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Response {
    file(&site.aiui, &name, Kind::FrameFile, &headers)
}

async fn healthz(State(site): State<Site>) -> Response {
    axum::Json(health::body(&site.services).await).into_response()
}

fn page(assets: &[Asset], kind: Kind) -> Response {
    match assets.iter().find(|asset| asset.name == "index.html") {
        Some(asset) => of_kind(body(asset), kind),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

fn file(assets: &[Asset], name: &str, kind: Kind, headers: &HeaderMap) -> Response {
    // The page itself has one address, with the policy of a page.
    let Some(asset) = assets.iter().find(|asset| asset.name == name && name != "index.html") else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let known = headers
        .get_all(header::IF_NONE_MATCH)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|etag| etag.trim().trim_start_matches("W/").as_bytes() == asset.etag.as_bytes());
    let mut response =
        if known { StatusCode::NOT_MODIFIED.into_response() } else { body(asset) };
    response.headers_mut().insert(header::ETAG, asset.etag.clone());
    of_kind(response, kind)
}

fn body(asset: &Asset) -> Response {
    ([(header::CONTENT_TYPE, asset.content_type.clone())], asset.bytes).into_response()
}

fn of_kind(mut response: Response, kind: Kind) -> Response {
    response.extensions_mut().insert(kind);
    response
}
