import { claude } from './claude.ts'
import type { AgentClient } from './client.ts'
import { codex } from './codex.ts'
import { gemini } from './gemini.ts'

/** Every client, for tables. */
export const clients: readonly (readonly [string, AgentClient])[] = [claude, codex, gemini].map((client) => [
  client.name,
  client,
])
