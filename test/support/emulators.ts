import { createEmulator } from 'emulate'

/** A stateful stand-in for a service's API, on a free port of this machine. */
export interface Emulator {
  /** The emulator's address, without a closing slash. */
  readonly url: string
  close(): Promise<void>
}

/** A token that the emulators know as an administrator's. */
export const emulatorToken = 'test_token_admin'

/** Another token of the same administrator. The emulators answer 5,000 requests per token and hour. */
export const spareToken = (index: number): string => `test_token_spare_${index}`

/**
 * `seed` fills the service with its first data, in the emulator's own form. The service knows `emulatorToken`, and
 * `spareTokens` spare tokens.
 */
export async function startEmulator(
  service: 'github' | 'slack' | 'google' | 'resend',
  seed: Record<string, unknown> = {},
  spareTokens = 0,
): Promise<Emulator> {
  const names = [emulatorToken, ...Array.from({ length: spareTokens }, (_, index) => spareToken(index))]
  const admin = { login: 'admin', scopes: ['repo', 'user', 'admin:org', 'admin:repo_hook'] }
  const tokens = Object.fromEntries(names.map((name) => [name, admin]))
  const { url, close } = await createEmulator({
    service,
    port: 0,
    seed: { [service]: seed, ...(spareTokens > 0 ? { tokens } : {}) },
  })
  return { url, close }
}
