/*
 * A worker runs this file once, before its first run. If `stackTraceLimit` is missing, V8 records no stacks for errors
 * of the workflow code. With stacks, the SDK would make one for each promise of each run, and would keep this stack
 * while the promise is open (docs/decisions/0194). If you need stacks to find a bug of the interpreter, take this file
 * out of `bundleWorkflows`.
 */
delete (Error as { stackTraceLimit?: number }).stackTraceLimit
