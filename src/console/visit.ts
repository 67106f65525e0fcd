import type { ComponentChild } from 'preact'
import { homePath } from '../contract/pages.ts'
import type { Role } from '../policy/types.ts'

/*
 * What a page of the console is given and what it returns. A page reads and changes things only through `Api`: the routes of
 * the public API, with the rights of the signed-in person.
 */

export interface Organization {
  readonly id: string
  readonly name: string
  readonly personal: boolean
  readonly role: Role
}

export interface Person {
  readonly user: { readonly id: string; readonly email: string; readonly name: string }
  readonly organizations: readonly Organization[]
  /** The organization of lists. The person chose it, or it is the first that is not personal. */
  readonly organization: Organization | null
}

export interface Problem {
  readonly status: number
  readonly code: string
  readonly message: string
}

export type Result<T> = { readonly ok: true; readonly body: T } | ({ readonly ok: false } & Problem)

export interface ApiRequest {
  readonly params?: Readonly<Record<string, string>>
  readonly query?: Readonly<Record<string, string>>
  readonly body?: unknown
  readonly idempotencyKey?: string
  /** Fields of a large answer that are wanted; the others are not read. */
  readonly only?: readonly string[]
  /** A longer answer in parts is refused with `too_large`, and the rest of it is not read. */
  readonly mostCharacters?: number
}

export interface Api {
  /** Calls a route by its key, such as `GET /approvals/{id}`. `T` is its published answer. */
  call<T>(key: string, request?: ApiRequest): Promise<Result<T>>
}

/** The fields of a submitted form; a name may have several values. */
export type Form = URLSearchParams

/** A request of anybody. */
export interface Visit {
  /** The path with its query, to come back to. */
  readonly place: string
  readonly params: Readonly<Record<string, string>>
  readonly query: URLSearchParams
}

/** A request of a signed-in person. */
export interface PersonsVisit extends Visit {
  readonly api: Api
  readonly person: Person
  /** Proves that a form comes from a page of this session. */
  readonly token: string
  readonly now: Date
}

export interface Page {
  readonly status: number
  readonly title: string
  readonly main: ComponentChild
}

export type Shown = Page | { readonly redirect: string }

/** The path to follow after sign-in: only pages of the console, never another host, and nothing that leads out by `..`. */
export function ownPlace(given: string | null): string {
  const inside =
    given !== null &&
    given.length <= 500 &&
    /^\/console\/[\w\-./?=&%~]*$/.test(given) &&
    new URL(given, 'http://console').href === `http://console${given}`
  return inside && !given.startsWith('/console/sign-in') ? given : homePath
}
