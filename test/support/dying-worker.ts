import { deadlyText } from './deadly-text.ts'

/*
 * This file is loaded before a worker's program (`--import`). The process dies as soon as it parses JSON of more than
 * 100,000 characters that contains `deadlyText`. This looks as if the process had run out of memory.
 */

const parse = JSON.parse
JSON.parse = (text: string, reviver?: Parameters<typeof parse>[1]): unknown => {
  const isDeadly = typeof text === 'string' && text.length > 100_000 && text.includes(deadlyText)
  if (isDeadly) process.kill(process.pid, 'SIGKILL')
  return parse(text, reviver) as unknown
}
