import type { AttackRun } from './attack.ts'
import { claudeAttacks } from './claude.ts'
import { codexAttacks } from './codex.ts'
import { copilotAttacks } from './copilot.ts'
import { geminiAttacks } from './gemini.ts'
import { opencodeAttacks } from './opencode.ts'

/** Every attack, in the order of docs/agents-reference.md. */
export const attackRuns: readonly AttackRun[] = [
  ...claudeAttacks,
  ...codexAttacks,
  ...geminiAttacks,
  ...copilotAttacks,
  ...opencodeAttacks,
]
