import { OutgoingError, type Fetch } from '../../shared/outgoing/outgoing.ts'
import { retryAfterOf } from '../../shared/outgoing/retry-after.ts'
import { Failures, type Service } from './exchange.ts'
import { ToolError } from './executor.ts'

/** Remembers its last request, which explains the error if the call fails. */
export interface Watched {
  readonly fetch: Fetch
  /** From the last request. After a success status, the answer is not as the service documents it. */
  errorOf(error: unknown, signal: AbortSignal): Promise<unknown>
  /** Returns whether the service may have done the work of the last request. */
  mayHaveWorked(): boolean
}

type Last =
  | { readonly kind: 'none' }
  | { readonly kind: 'answered'; readonly answer: Response; readonly text: string }
  | { readonly kind: 'failed'; readonly error: unknown }

/** The library's own errors are not used, because such libraries put prompts and keys into them. */
export function watch(send: Fetch, service: Service, expired: () => Promise<ToolError>): Watched {
  const failures = new Failures(service)
  let last: Last = { kind: 'none' }
  return {
    async fetch(input, init) {
      last = { kind: 'none' }
      try {
        const answer = await send(input, init)
        const text = answer.ok ? '' : await answer.clone().text()
        last = { kind: 'answered', answer, text }
        return answer
      } catch (error) {
        last = { kind: 'failed', error }
        throw error
      }
    },
    async errorOf(error, signal) {
      if (error instanceof ToolError) return error
      if (signal.aborted) return signal.reason
      if (last.kind === 'answered') {
        const { ok, status, headers } = last.answer
        if (ok) return failures.unreadable('again')
        const seconds = retryAfterOf(headers)
        return failures.byStatus({ status, sending: 'again', seconds, text: last.text, expired })
      }
      const cause = last.kind === 'failed' ? last.error : error
      if (cause instanceof OutgoingError) return failures.unanswered(cause, 'again')
      return new Error(`${service.prefix}: the client failed with ${(cause as Error).name}`)
    },
    mayHaveWorked() {
      if (last.kind === 'answered') return last.answer.ok
      return last.kind === 'failed' && !(last.error instanceof OutgoingError && !last.error.mayHaveArrived)
    },
  }
}
