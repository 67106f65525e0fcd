import { types } from 'node:util'
import { isConnectionError } from '../db/errors.ts'

export interface LoggedError {
  readonly name: string
  /** Only of known errors, and cut before the first value that it quotes. */
  readonly message?: string
  /** An SQLSTATE, or a code of the system, of this service or of gRPC. */
  readonly code?: string | number
  /** A Temporal failure's. */
  readonly type?: string
  readonly table?: string
  readonly constraint?: string
  /** Codes of a schema. Paths and values are never logged. */
  readonly issues?: readonly string[]
  /** Frames only: the stack begins with the message. */
  readonly stack?: string
  readonly cause?: LoggedError
  readonly errors?: readonly LoggedError[]
}

const deepest = 4

export const isError = (value: unknown): value is Error =>
  types.isNativeError(value) || value instanceof Error

/**
 * Errors contain values: PostgreSQL's `detail`, `where` and `message` quote rows and parameters, schemas quote input, a
 * tool's error may have its parameters. So only these fields are copied, and a message only of known errors, up to the
 * first quoted value.
 */
export function loggedError(error: unknown, depth = 0): LoggedError {
  if (!isError(error)) return { name: typeof error }
  try {
    return { ...about(error), ...inside(error, depth) }
  } catch {
    // Reading a property threw.
    return { name: 'Error' }
  }
}

/** Up to the first value that the message quotes or appends: `relation "runs" does not exist` becomes `relation …`. */
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
      ? { errors: errors.slice(0, 5).map((each) => loggedError(each, depth + 1)) }
      : {}),
  }
}

/** One word cannot be a sentence with values in it. */
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

/** Errors of Temporal's client and of this service. Their messages have input in backticks, where `wordsOf` cuts. */
const known = new Set(
  (
    'DomainError ApiError UnsealError ServiceError TransportError IllegalStateError ShutdownError ' +
    'NamespaceNotFoundError WorkflowNotFoundError'
  ).split(' '),
)

/** V8's messages about mistakes, and that of a failed `fetch`. Other code uses these classes and appends values. */
const mistake =
  /^(?:Cannot (?:read|set) properties of (?:undefined|null)|Cannot destructure property|fetch failed|[\w.$]{1,100} is not (?:a function|iterable|a constructor|defined)|Invalid (?:string|array) length|Maximum call stack size exceeded|Assignment to constant variable)/

function messageOf(error: Error): string | undefined {
  const { syscall, code, address, port } = fieldsOf(error)
  // A system error's message can have paths and host names, which may be parameters, so it is made of the system call,
  // the code, and the connection's address and port.
  if (typeof syscall === 'string' && typeof code === 'string') {
    const where =
      typeof address === 'string' ? ` ${address}${typeof port === 'number' ? `:${port}` : ''}` : ''
    return `${wordOf(syscall) ?? ''} ${wordOf(code) ?? ''}${where}`
  }
  // A lost connection without a code is recognised by its message, which is known therefore.
  const isLost = code === undefined && isConnectionError(error)
  if (isDatabaseError(error) || known.has(error.name) || isLost) return wordsOf(error.message)
  return mistake.exec(error.message)?.[0]
}

const kindsOf = (issues: readonly unknown[]): string[] =>
  issues.slice(0, 10).map((issue) => wordOf(Object(issue).code) ?? 'unknown')

const frame = /^at (?:[^()]{1,200} \()?(?:file:\/\/|node:|\/|<anonymous>|native)[^()]{0,300}\)?$/

/** Frames are searched after the message, which may have similar lines. */
function framesOf({ stack, message }: Error): string {
  if (typeof stack !== 'string') return ''
  const at = message === '' ? -1 : stack.indexOf(message)
  return stack
    .slice(at < 0 ? 0 : at + message.length)
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => frame.test(line))
    .slice(0, 10)
    .join('\n')
}
