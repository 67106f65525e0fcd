import { join } from 'node:path'
import { readIdentities } from './bootstrap.ts'
import type { StackSettings } from './settings.ts'

/**
 * Returns lines for a person who has just started the service. The lines contain the address of the console and say how
 * to sign in. The lines contain no password and no key.
 */
export function firstSteps(
  { publicUrl, database, production }: Pick<StackSettings, 'publicUrl' | 'database' | 'production'>,
  dataDir: string,
  baseUrl: string,
): string[] {
  const consoleLine = `console: ${new URL('/console/', publicUrl ?? baseUrl).href}`
  if (database !== null)
    return [
      consoleLine,
      'first owner: `npm run create-owner -- EMAIL` makes one, with a password and an API key',
    ]
  const path = join(dataDir, 'bootstrap.json')
  if (production || readIdentities(path) === null) return [consoleLine]
  return [consoleLine, `sign in: ${path} has five people with their passwords and API keys`]
}
