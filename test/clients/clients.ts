import { byDepth } from '../support/depth.ts'
import { claude } from './claude.ts'
import type { AgentClient } from './client.ts'
import { codex } from './codex.ts'
import { copilot } from './copilot.ts'
import { gemini } from './gemini.ts'
import { opencode } from './opencode.ts'

/** Texts that the model reads when the client must ask its own user about a call, and no user is present. */
export const asksItsUser =
  /needs approval|Read-only|requires user confirmation|no interactive user response was available|rejected permission/

/** The clients of this depth, for tables of tests. */
export const clients: readonly (readonly [string, AgentClient])[] = byDepth<readonly AgentClient[]>(
  [claude],
  [claude, codex, gemini, copilot, opencode],
).map((client) => [client.name, client])
