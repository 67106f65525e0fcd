/*
 * A worker runs this file once, before its first run. Without `stackTraceLimit`, V8 records no stacks in
 * workflow code. Otherwise the SDK would keep one for each open promise (docs/decisions/0194). If you need
 * stacks to find a bug of the interpreter, take this file out of `bundleWorkflows`.
 */
delete (Error as { stackTraceLimit?: number }).stackTraceLimit
