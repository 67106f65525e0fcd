import type { Budget } from '../budget.ts'
import { channelOf } from './channels.ts'
import { folderOf, partOfFolder } from './folders.ts'
import { calendarIdOf, fileIdOf } from './google-links.ts'
import { issueKeyOf, partOfKey, projectKeyOf } from './jira-keys.ts'
import { priced } from './priced.ts'
import { asGithubLink, partOfRepository, repositoryOf } from './repositories.ts'
import { boardIdOf, cardIdOf, partOfId } from './trello-ids.ts'

/*
 * A place is what a parameter of a tool can name: a repository, a channel, a file, the folder of a shell and so on. This file has
 * functions that read each kind of place. Rules, tool policies and the tools themselves use the same functions. So a
 * rule compares the place that a call reaches, however the call spells the place.
 */

interface Reader {
  /** Returns the place in the form used for comparison. Returns null for a text that the tools refuse. */
  read(text: string): string | null
  /**
   * Converts the value of `contains` or `startswith` in a rule. The value may be only a part of a place, so `read`
   * cannot read it. The result is spelled as `read` would spell it, e.g. in lower case.
   */
  part(text: string): string
  /**
   * Reads a text of a rule that `read` cannot read, e.g. a channel's name with capital letters. Returns null if the
   * meaning of the text is not clear.
   */
  guess?(text: string): string | null
  /**
   * Reads a text of a rule as a link to the host of the organization's connection. Rules do not know this host, so the
   * reading may be wrong. It is used only where it makes the rule restrict more calls.
   */
  ifOfConnection?(text: string): string
  /** Returns other spellings of a place, e.g. `sales` for `#sales`. `contains` and `startswith` also compare these. */
  others?(place: string): readonly string[]
}

const asWritten = (text: string): string => text

/**
 * The functions that read each kind of place. The functions for Jira do not check the host of a link, because the tools
 * refuse links to any site but the connected one.
 */
const readers = {
  repository: { read: repositoryOf, part: partOfRepository, ifOfConnection: asGithubLink },
  channel: {
    read: channelOf,
    part: asWritten,
    // The names of channels have no capital letters, so `#Sales` in a rule must mean `#sales`.
    guess: (text) => channelOf(text.toLowerCase()),
    others: (place) => (place.startsWith('#') ? [place.slice(1)] : []),
  },
  jira_issue: { read: (text) => issueKeyOf(text, null), part: partOfKey },
  jira_project: { read: (text) => projectKeyOf(text, null), part: partOfKey },
  trello_card: { read: cardIdOf, part: partOfId },
  trello_board: { read: boardIdOf, part: partOfId },
  // The tools compare these places exactly as they are written.
  as_written: { read: asWritten, part: asWritten },
  google_file: { read: fileIdOf, part: asWritten },
  google_calendar: { read: calendarIdOf, part: asWritten },
  folder: { read: folderOf, part: partOfFolder, others: (place) => [place.slice(0, -1)] },
} as const satisfies { readonly [kind: string]: Reader }

export type PlaceKind = keyof typeof readers

const placeKinds = Object.keys(readers) as readonly PlaceKind[]

/**
 * Returns the place that a text names, in the form used for comparison. Returns null for a text that the tools refuse.
 */
export function placeOf(kind: PlaceKind, text: string): string | null {
  return readers[kind].read(text)
}

const pricedReaders = Object.fromEntries(
  placeKinds.map((kind) => [kind, priced((text) => placeOf(kind, text))]),
) as Readonly<Record<PlaceKind, ReturnType<typeof priced<string | null>>>>

/** Like `placeOf`. Each text is read once for all rules and steps that share the budget. */
export function placeWithin(kind: PlaceKind, text: string, budget: Budget): string | null {
  return budget.once(text, pricedReaders[kind])[0] ?? null
}

/** The texts of a rule, as places. They are read once for each kind of place, when the first call needs them. */
export class WantedPlaces {
  readonly #texts: readonly string[]
  readonly #isNegative: boolean
  /**
   * Whether one more place in the texts makes the rule stricter. This is true for the places of a rule that denies or
   * requires an approval, and for the exceptions of a rule that allows.
   */
  readonly #isWide: boolean
  readonly #wholes = new Map<PlaceKind, ReadonlySet<string>>()
  readonly #parts = new Map<PlaceKind, ReadonlySet<string>>()

  /**
   * @param isRestrictive whether the rule denies or requires an approval
   * @param isNegative whether the texts are a list of exceptions. Example: the operator `not_in`
   */
  constructor(values: readonly unknown[], isRestrictive: boolean, isNegative = false) {
    this.#texts = values.filter((value) => typeof value === 'string')
    this.#isNegative = isNegative
    this.#isWide = isRestrictive !== isNegative
  }

  /** Whether at least one value of the rule is a text. Numbers name no places. */
  get hasTexts(): boolean {
    return this.#texts.length > 0
  }

  /** The places that the texts name. */
  wholes(kind: PlaceKind): ReadonlySet<string> {
    let known = this.#wholes.get(kind)
    if (known === undefined) {
      known = new Set(this.#readings(kind).flatMap((text) => this.#read(kind, text) ?? []))
      this.#wholes.set(kind, known)
    }
    return known
  }

  /** The texts in the form in which `contains` and `startswith` look for them in a place. */
  parts(kind: PlaceKind): ReadonlySet<string> {
    let known = this.#parts.get(kind)
    if (known === undefined) {
      const parts = this.#readings(kind).map((text) => readers[kind].part(text))
      known = new Set([...parts, ...this.wholes(kind)])
      this.#parts.set(kind, known)
    }
    return known
  }

  #readings(kind: PlaceKind): readonly string[] {
    const { ifOfConnection }: Reader = readers[kind]
    if (!this.#isWide || ifOfConnection === undefined) return this.#texts
    return this.#texts.flatMap((text) => [text, ifOfConnection(text)])
  }

  /** Reads one text of the rule. A list of exceptions gets no guesses, because a wrong guess would add an exception. */
  #read(kind: PlaceKind, text: string): string | null {
    const reader: Reader = readers[kind]
    return reader.read(text) ?? (this.#isNegative ? null : (reader.guess?.(text) ?? null))
  }
}

/** All spellings of a place, for `contains` and `startswith`. */
export function spellingsOf(kind: PlaceKind, place: string): readonly string[] {
  const reader: Reader = readers[kind]
  return [place, ...(reader.others?.(place) ?? [])]
}
