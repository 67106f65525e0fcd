import type { Socket } from 'node:net'
import { reply, type ScriptedService } from './scripted-service.ts'

/* A service with one held call: the approval `apr_1`, its later status, and the number of polls. */

export type Answer = object | ((socket: Socket) => void)

export const poll = '/api/v1/authorize/approvals/apr_1'

export const status = (word: string, comment: string | null = null): object => ({
  approval_id: 'apr_1',
  status: word,
  comment,
})

/** The approval was withdrawn, because the agent's session was revoked. */
export const revoked: object = { ...status('cancelled'), session_status: 'revoked' }

/**
 * Answers the authorize request and then the polls, in order; the last answer repeats. Accepts reports and withdrawals.
 */
export function answerInTurn(
  service: ScriptedService,
  decisions: readonly Answer[],
  polls: readonly Answer[],
): void {
  const [left, leftPolls] = [[...decisions], [...polls]]
  service.script = (asked, socket) => {
    if (asked.path.endsWith('/cancel')) return reply(socket, 200, status('cancelled'))
    const queue =
      asked.path === '/api/v1/authorize' ? left : asked.method === 'GET' ? leftPolls : [{ ok: true }]
    const answer = (queue.length > 1 ? queue.shift() : queue[0]) as Answer
    if (typeof answer === 'function') answer(socket)
    else reply(socket, 200, answer)
  }
}
