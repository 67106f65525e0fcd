import { createEmulator } from 'emulate'

/** A stateful stand-in for a service's API, on a free port of this machine. */
export interface Emulator {
  /** Its address, without a closing slash. */
  readonly url: string
  close(): Promise<void>
}

/** A token that the emulators know as an administrator's. */
export const emulatorToken = 'test_token_admin'

/** `seed` fills the service with its first data, in the emulator's own form. */
export async function startEmulator(
  service: 'github' | 'slack' | 'google' | 'resend',
  seed: Record<string, unknown> = {},
): Promise<Emulator> {
  const { url, close } = await createEmulator({ service, port: 0, seed: { [service]: seed } })
  return { url, close }
}
