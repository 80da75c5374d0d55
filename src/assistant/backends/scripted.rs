//! A leg for tests: it answers what it is told to, and remembers what it was asked.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use super::{Answer, Backend, BackendError, BackendTurn, Capabilities, Request, ToolSpec, Turn};

type Script = Box<dyn Fn(&[Turn], &[ToolSpec]) -> Result<BackendTurn, BackendError> + Send + Sync>;

type Perhaps = Box<dyn Fn(&[Turn]) -> Option<Result<BackendTurn, BackendError>> + Send + Sync>;

/// One request as it came.
#[derive(Debug, Clone)]
pub struct Asked {
    /// The system prompt.
    pub system: String,
    /// The tools offered.
    pub tools: Vec<ToolSpec>,
    /// The conversation.
    pub history: Vec<Turn>,
}

/// The leg.
pub struct Scripted {
    name: &'static str,
    cloud: bool,
    capabilities: Result<Capabilities, BackendError>,
    queue: Mutex<VecDeque<Result<BackendTurn, BackendError>>>,
    always: Option<Script>,
    hang: bool,
    /// Hangs over what it has no answer to.
    perhaps: Option<Perhaps>,
    /// Answers only when it is asked once more to go on.
    slow: AtomicBool,
    asked: Mutex<Vec<Asked>>,
}

impl Scripted {
    /// Answers the queue in order, then nothing usable.
    pub fn new(name: &'static str, queue: Vec<Result<BackendTurn, BackendError>>) -> Scripted {
        Scripted {
            name,
            cloud: false,
            capabilities: Ok(Capabilities { tools: true }),
            queue: Mutex::new(queue.into()),
            always: None,
            hang: false,
            perhaps: None,
            slow: AtomicBool::new(false),
            asked: Mutex::new(Vec::new()),
        }
    }

    /// Answers by a function of the conversation and the tools offered.
    pub fn by(
        name: &'static str,
        script: impl Fn(&[Turn], &[ToolSpec]) -> Result<BackendTurn, BackendError>
        + Send
        + Sync
        + 'static,
    ) -> Scripted {
        Scripted { always: Some(Box::new(script)), ..Scripted::new(name, Vec::new()) }
    }

    /// Answers by a function of the conversation, and never where that gives nothing.
    pub fn by_or_hang(
        name: &'static str,
        script: impl Fn(&[Turn]) -> Option<Result<BackendTurn, BackendError>> + Send + Sync + 'static,
    ) -> Scripted {
        Scripted { perhaps: Some(Box::new(script)), ..Scripted::new(name, Vec::new()) }
    }

    /// Other tasks get a turn or two before it answers.
    pub fn delayed(self: &Arc<Scripted>) -> Arc<Scripted> {
        self.slow.store(true, Ordering::Relaxed);
        self.clone()
    }

    /// It never answers.
    pub fn hanging(name: &'static str) -> Scripted {
        Scripted::hanging_after(name, Vec::new())
    }

    /// Answers the queue in order, and then never.
    pub fn hanging_after(
        name: &'static str,
        queue: Vec<Result<BackendTurn, BackendError>>,
    ) -> Scripted {
        Scripted { hang: true, ..Scripted::new(name, queue) }
    }

    /// It is in the cloud.
    #[must_use]
    pub fn in_cloud(mut self) -> Scripted {
        self.cloud = true;
        self
    }

    /// What it says of itself.
    #[must_use]
    pub fn with(mut self, capabilities: Result<Capabilities, BackendError>) -> Scripted {
        self.capabilities = capabilities;
        self
    }

    /// What it was asked.
    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

impl Backend for Scripted {
    fn name(&self) -> &'static str {
        self.name
    }

    fn is_cloud(&self) -> bool {
        self.cloud
    }

    fn available(&self) -> Answer<'_, Capabilities> {
        let capabilities = self.capabilities.clone();
        Box::pin(async move { capabilities })
    }

    fn send<'a>(&'a self, request: Request<'a>) -> Answer<'a, BackendTurn> {
        self.asked.lock().unwrap().push(Asked {
            system: request.system.to_owned(),
            tools: request.tools.to_vec(),
            history: request.history.to_vec(),
        });
        Box::pin(async move {
            if self.slow.load(Ordering::Relaxed) {
                for _ in 0..10 {
                    tokio::task::yield_now().await;
                }
            }
            if let Some(perhaps) = &self.perhaps {
                match perhaps(request.history) {
                    Some(answer) => return answer,
                    None => std::future::pending::<()>().await,
                }
            }
            if self.hang && self.queue.lock().unwrap().is_empty() {
                std::future::pending::<()>().await;
            }
            match &self.always {
                Some(script) => script(request.history, request.tools),
                None => {
                    self.queue.lock().unwrap().pop_front().unwrap_or_else(|| {
                        Err(BackendError::Broken("the script is over".to_owned()))
                    })
                }
            }
        })
    }
}

/// The same leg, still in the hands of the test.
impl Backend for Arc<Scripted> {
    fn name(&self) -> &'static str {
        self.as_ref().name()
    }

    fn is_cloud(&self) -> bool {
        self.as_ref().is_cloud()
    }

    fn available(&self) -> Answer<'_, Capabilities> {
        self.as_ref().available()
    }

    fn send<'a>(&'a self, request: Request<'a>) -> Answer<'a, BackendTurn> {
        self.as_ref().send(request)
    }
}
