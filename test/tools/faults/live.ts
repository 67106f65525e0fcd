import type { FaultService } from './service.ts'
import { services } from './services.ts'

/*
 * `LIVE_TESTS=github,slack` sends the calls of faults.test.ts to the real services, through the same
 * proxy. CONTRIBUTING.md says which variables the tests need. Pauses and the delay of a list then take real time.
 */

/** A real service, in place of its stand-in. */
export interface Live {
  readonly url: string
  readonly token: string
  /** The place that the calls write to. */
  readonly place: string
  /** Milliseconds until the service's lists show a new object. */
  readonly listDelay: number
}

type Env = Readonly<Record<string, string | undefined>>

/** The real service; null without the switch. Throws if a variable is missing. */
export function liveOf(
  { name, live }: Pick<FaultService, 'name' | 'live'>,
  env: Env = process.env,
): Live | null {
  if (!namesIn(env).includes(name)) return null
  const prefix = `LIVE_${name.toUpperCase()}`
  const [token, place] = [env[`${prefix}_TOKEN`], env[`${prefix}_PLACE`]]
  if (live === undefined || !token || !place)
    throw new Error(`LIVE_TESTS names \`${name}\`: set ${prefix}_TOKEN and ${prefix}_PLACE`)
  return { url: env[`${prefix}_URL`] || live.url, token, place, listDelay: 5_000 }
}

/** The services to test: with the switch, only those that it names. */
export function chosenServices(env: Env = process.env): readonly FaultService[] {
  const names = namesIn(env)
  if (names.length === 0) return services
  const withLive = services.filter(({ live }) => live !== undefined)
  const unknown = names.find((name) => !withLive.some((each) => each.name === name))
  if (unknown !== undefined)
    throw new Error(
      `LIVE_TESTS names \`${unknown}\`: it takes ${withLive.map(({ name }) => name).join(', ')}`,
    )
  return withLive.filter(({ name }) => names.includes(name))
}

const namesIn = (env: Env): string[] =>
  (env['LIVE_TESTS'] ?? '')
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '')
