//! MCP as bytes: frames, methods, revisions.
