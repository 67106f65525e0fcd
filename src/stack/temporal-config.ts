import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse } from 'yaml'
import { z } from 'zod'
import { projectRoot } from '../shared/project-root.ts'

const scalar = z.union([z.string(), z.number(), z.boolean()])
type Scalar = z.infer<typeof scalar>
const port = z.number().int().min(0).max(65_535)

/** The format of temporal-dev.yml. An unknown key is an error, because a misspelt setting would have no effect. */
const schema = z.strictObject({
  namespace: z.string().regex(/^[A-Za-z0-9][A-Za-z0-9_.-]{1,254}$/),
  ports: z.strictObject({ grpc: port, ui: port }),
  dynamic_config: z.record(z.string().regex(/^[A-Za-z0-9.]+$/), scalar),
  sqlite_pragmas: z.record(z.string().regex(/^[a-z_]+$/), scalar),
  search_attributes: z.record(
    z.string().regex(/^[A-Za-z][A-Za-z0-9]*$/),
    z.enum(['Text', 'Keyword', 'Int', 'Double', 'Bool', 'Datetime', 'KeywordList']),
  ),
})

export type TemporalConfig = z.infer<typeof schema>

/** Reads temporal-dev.yml. Throws an error that names each invalid entry. */
export function readTemporalConfig(path = join(projectRoot(), 'temporal-dev.yml')): TemporalConfig {
  const result = schema.safeParse(parse(readFileSync(path, 'utf8')))
  if (result.success) return result.data
  const wrong = result.error.issues.map(({ path: at, message }) => `\`${at.join('.')}\`: ${message}`)
  throw new Error(`\`${path}\` is wrong: ${wrong.join('; ')}`)
}

export interface TemporalPlaces {
  readonly port: number
  readonly uiPort: number
  /** The file of the database. Is null if the server stores nothing. */
  readonly database: string | null
  /** If false, the server has no web interface. Default: true. */
  readonly ui?: boolean
}

/** Returns the arguments with which `temporal` starts a development server with this configuration. */
export function temporalArguments(config: TemporalConfig, places: TemporalPlaces): string[] {
  const each = (
    flag: string,
    values: TemporalConfig['sqlite_pragmas'],
    text: (value: Scalar) => string,
  ): string[] => Object.entries(values).flatMap(([name, value]) => [flag, `${name}=${text(value)}`])
  const ui =
    places.ui === false ? ['--headless'] : ['--ui-port', String(places.uiPort), '--ui-disable-news-fetch']
  const database = places.database === null ? [] : ['--db-filename', places.database]
  const log = ['--log-level', 'warn', '--log-format', 'json']
  return ['server', 'start-dev', '--ip', '127.0.0.1', '--port', String(places.port)].concat(
    ui,
    database,
    ['--namespace', config.namespace],
    log,
    // `temporal` reads the value of a dynamic setting as JSON, and the value of a pragma as plain text.
    each('--dynamic-config-value', config.dynamic_config, (value) => JSON.stringify(value)),
    places.database === null ? [] : each('--sqlite-pragma', config.sqlite_pragmas, String),
    each('--search-attribute', config.search_attributes, String),
  )
}
