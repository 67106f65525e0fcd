/**
 * Returns the environment for our programs in tests. It contains no other variables of the person who runs the tests.
 * With the cache of compiled code (run.ts), a Node program starts in half the time.
 */
export function programEnv(): NodeJS.ProcessEnv {
  const { PATH, HOME, NODE_COMPILE_CACHE } = process.env
  return { PATH, HOME, ...(NODE_COMPILE_CACHE !== undefined && { NODE_COMPILE_CACHE }) }
}
