import type { AttackRun } from './attack.ts'
import { claudeAttacks } from './claude.ts'
import { codexAttacks } from './codex.ts'
import { copilotAttacks } from './copilot.ts'
import { geminiAttacks } from './gemini.ts'
import { opencodeAttacks } from './opencode.ts'
import { programAttacks } from './programs.ts'

/** Every attack. docs/agents-reference.md has them by client, in this order. */
export const attackRuns: readonly AttackRun[] = [
  ...claudeAttacks,
  ...codexAttacks,
  ...geminiAttacks,
  ...copilotAttacks,
  ...opencodeAttacks,
  ...programAttacks,
]
