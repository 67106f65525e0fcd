import type { ComponentChild } from 'preact'
import { homePath } from '../contract/pages.ts'
import type { JsonObject, Role } from '../policy/types.ts'
import type { Layouts } from './graph.ts'

/*
 * A page of the console gets a visit and returns what to show. The page reads and changes data only through `Api`.
 * `Api` calls the routes of the public API with the rights of the signed-in person.
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
  /**
   * The organization whose lists are shown. The person can choose this organization. Without a choice, this is the
   * first organization that is not personal, or else the personal one. Is null if the person is in no organization.
   */
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
  /** The page needs only these fields of a large answer. Other fields are not read. */
  readonly only?: readonly string[]
  /**
   * Maximum number of characters of a streamed answer. For a longer answer, the call fails with `too_large`, and the
   * rest of the answer is not read.
   */
  readonly mostCharacters?: number
}

export interface Api {
  /** Calls a route by its key, such as `GET /approvals/{id}`. `T` is the published type of the route's answer. */
  call<T>(key: string, request?: ApiRequest): Promise<Result<T>>
}

/** The fields of a submitted form. A name may have several values. */
export type Form = URLSearchParams

/** A request to a page. The person may be signed in or not. */
export interface Visit {
  /** The path with its query, so that a person can return to it. */
  readonly place: string
  readonly params: Readonly<Record<string, string>>
  readonly query: URLSearchParams
}

/** A request of a signed-in person. */
export interface PersonsVisit extends Visit {
  readonly api: Api
  readonly person: Person
  /** Proves that a form comes from a page of this sign-in session. */
  readonly token: string
  readonly now: Date
  /** This process's cache of picture layouts. */
  readonly layouts: Layouts
}

export interface Page {
  readonly status: number
  readonly title: string
  readonly main: ComponentChild
}

/** A JSON file that the browser saves. */
export interface Download {
  readonly name: string
  readonly value: JsonObject
}

export type Shown = Page | { readonly redirect: string } | { readonly file: Download }

/**
 * Returns the path to open after the sign-in. Returns `given` if this is the path of a page of the console, but not of
 * the sign-in page. In all other cases, returns the home page. Examples: `given` leads to another host, or contains
 * `..`.
 */
export function ownPlace(given: string | null): string {
  const inside =
    given !== null &&
    given.length <= 500 &&
    /^\/console\/[\w\-./?=&%~]*$/.test(given) &&
    new URL(given, 'http://console').href === `http://console${given}`
  return inside && !given.startsWith('/console/sign-in') ? given : homePath
}
