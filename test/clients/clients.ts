import { claude } from './claude.ts'
import type { AgentClient } from './client.ts'
import { codex } from './codex.ts'
import { copilot } from './copilot.ts'
import { gemini } from './gemini.ts'

/** What a model reads of a call that its client asks its own user about, and nobody is there to answer. */
export const asksItsUser =
  /needs approval|Read-only|requires user confirmation|no interactive user response was available/

/** Every client, for tables. */
export const clients: readonly (readonly [string, AgentClient])[] = [claude, codex, gemini, copilot].map(
  (client) => [client.name, client],
)
