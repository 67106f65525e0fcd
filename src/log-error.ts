import { types } from 'node:util'
import { isConnectionError } from './governance/database-errors.ts'

/** What the log holds of an error. */
export interface LoggedError {
  readonly name: string
  /** Only of kinds whose words are known, and of these nothing that they quote. */
  readonly message?: string
  /** SQLSTATE, system error, code of ours or of gRPC. */
  readonly code?: string | number
  /** Of a failure in Temporal: our name for it. */
  readonly type?: string
  readonly table?: string
  readonly constraint?: string
  /** What a schema found wrong: kinds of issues, never paths or values. */
  readonly issues?: readonly string[]
  /** Calls that led to it, without the message that a stack begins with. */
  readonly stack?: string
  readonly cause?: LoggedError
  readonly errors?: readonly LoggedError[]
}

const deepest = 4
const mostErrors = 5
const mostFrames = 10
const mostIssues = 10

export const isError = (value: unknown): value is Error =>
  types.isNativeError(value) || value instanceof Error

/**
 * Any error as the log may hold it. Errors carry values: PostgreSQL's `detail`, `where` and `message` quote rows and
 * parameters, schemas quote input, and what a tool throws may hold what it was given. So nothing is copied but what is named
 * here, and a message only where its words are those of a program, up to the first thing that it quotes.
 */
export function loggedError(error: unknown, depth = 0): LoggedError {
  if (!isError(error)) return { name: typeof error }
  try {
    return { ...about(error), ...inside(error, depth) }
  } catch {
    // A property that throws when it is read.
    return { name: 'Error' }
  }
}

/** The words of a program, up to the first value that it quotes or appends. */
export function wordsOf(text: string): string {
  const cut = /["`“„«<@\n:]|(?:^|[\s([])'/.exec(text)
  const words = (cut === null ? text : text.slice(0, cut.index)).slice(0, 300).trimEnd()
  return cut === null ? words : `${words} …`.trimStart()
}

type Fields = Partial<Record<string, unknown>>
const fieldsOf = (error: Error): Fields => error as unknown as Fields

function about(error: Error): LoggedError {
  const { code, table, constraint, type, issues } = fieldsOf(error)
  const message = messageOf(error)
  return {
    name: isDatabaseError(error) ? 'DatabaseError' : (wordOf(error.name) ?? 'Error'),
    ...(message === undefined ? {} : { message }),
    ...(typeof code === 'number' ? { code } : given('code', code)),
    ...given('table', table),
    ...given('constraint', constraint),
    ...given('type', type),
    ...(Array.isArray(issues) ? { issues: kindsOf(issues) } : {}),
  }
}

function inside(error: Error, depth: number): Pick<LoggedError, 'stack' | 'cause' | 'errors'> {
  const { cause, errors } = fieldsOf(error)
  const stack = framesOf(error)
  return {
    ...(stack === '' ? {} : { stack }),
    ...(isError(cause) && depth < deepest ? { cause: loggedError(cause, depth + 1) } : {}),
    ...(Array.isArray(errors) && depth < deepest
      ? { errors: errors.slice(0, mostErrors).map((each) => loggedError(each, depth + 1)) }
      : {}),
  }
}

/** A name that a program gives: it has no room for a sentence. */
const wordOf = (value: unknown): string | undefined =>
  typeof value === 'string' && /^[\w.:-]{1,63}$/.test(value) ? value : undefined

function given(field: 'code' | 'table' | 'constraint' | 'type', value: unknown): Fields {
  const word = wordOf(value)
  return word === undefined ? {} : { [field]: word }
}

const isDatabaseError = (error: Error): boolean => {
  const { severity, code } = fieldsOf(error)
  return typeof severity === 'string' && typeof code === 'string' && /^[0-9A-Z]{5}$/.test(code)
}

/** Of Temporal's client, and of this service, whose messages put what was sent in backticks. */
const known = new Set([
  'DomainError',
  'ApiError',
  'UnsealError',
  'ServiceError',
  'TransportError',
  'IllegalStateError',
  'ShutdownError',
  'NamespaceNotFoundError',
  'WorkflowNotFoundError',
])

/** What V8 says of a mistake in a program. Its classes are used by others too, who append what they were given. */
const mistake =
  /^(?:Cannot (?:read|set) properties of (?:undefined|null)|Cannot destructure property|fetch failed|[\w.$]{1,100} is not (?:a function|iterable|a constructor|defined)|Invalid (?:string|array) length|Maximum call stack size exceeded|Assignment to constant variable)/

function messageOf(error: Error): string | undefined {
  const { syscall, code, address, port } = fieldsOf(error)
  // Its own message names paths and hosts, which may be parameters.
  if (typeof syscall === 'string' && typeof code === 'string') {
    const where =
      typeof address === 'string' ? ` ${address}${typeof port === 'number' ? `:${port}` : ''}` : ''
    return `${wordOf(syscall) ?? ''} ${wordOf(code) ?? ''}${where}`
  }
  // Without a code it was told by its words: those of a driver that has lost its connection.
  const isLost = code === undefined && isConnectionError(error)
  if (isDatabaseError(error) || known.has(error.name) || isLost) return wordsOf(error.message)
  return mistake.exec(error.message)?.[0]
}

const kindsOf = (issues: readonly unknown[]): string[] =>
  issues.slice(0, mostIssues).map((issue) => wordOf(Object(issue).code) ?? 'unknown')

const frame = /^at (?:[^()]{1,200} \()?(?:file:\/\/|node:|\/|<anonymous>|native)[^()]{0,300}\)?$/

/** Lines that name a place in a program. The message in front of them may have lines that look the same. */
function framesOf({ stack, message }: Error): string {
  if (typeof stack !== 'string') return ''
  const at = message === '' ? -1 : stack.indexOf(message)
  return stack
    .slice(at < 0 ? 0 : at + message.length)
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => frame.test(line))
    .slice(0, mostFrames)
    .join('\n')
}
