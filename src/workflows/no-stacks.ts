/*
 * A worker runs this file once, before its first run. Without `stackTraceLimit`, V8 records no stacks in
 * workflow code. Otherwise the SDK would keep one for each open promise (docs/performance.md#memory-waits-and-reads). If you need
 * stacks to find a bug of the interpreter, take this file out of `bundleWorkflows`.
 */
delete (Error as { stackTraceLimit?: number }).stackTraceLimit
