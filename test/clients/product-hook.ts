import { hookFile, python } from '../adapters/run-hook.ts'
import type { AgentClient, HookCommand, Hooks } from './client.ts'

/** Where the hook finds the service, and how it behaves; the rest of its settings are its defaults. */
export interface ServiceSettings {
  readonly url: string
  readonly key: string
  readonly mode?: 'closed' | 'open'
  /** Seconds that a held call waits for its approver. */
  readonly wait?: number
}

/** `SERVICE_...` for a client's environment. */
export const serviceEnv = ({ url, key, mode = 'closed', wait }: ServiceSettings): Record<string, string> => ({
  SERVICE_API_URL: url,
  SERVICE_API_KEY: key,
  SERVICE_FAIL_MODE: mode,
  ...(wait === undefined ? {} : { SERVICE_APPROVAL_WAIT: String(wait) }),
})

/** `service_hook.py` at a client's events, with the documented time-outs unless the client waits `patience` seconds. */
export function productHooks(client: AgentClient, patience = 90): Required<Hooks> {
  const at = (event: string, timeout: number): HookCommand => ({
    command: `${python} -I -S '${hookFile}' ${event} --dialect ${client.name} --timeout ${timeout}`,
    timeout,
    block: event === 'pre',
  })
  return { pre: at('pre', patience), post: at('post', 15), end: at('end', 2) }
}
