import { h, type ComponentChild } from 'preact'
import { Alert } from '../parts/alert.ts'
import type { Page } from '../visit.ts'

/** The reason why the person's previous attempt failed, such as a refused form. */
export interface Refusal {
  readonly status: number
  readonly message: string
}

/** Returns a narrow page with one heading, and below it one form or one message. */
export function plainPage(title: string, contents: ComponentChild, problem: Refusal | null = null): Page {
  return {
    status: problem?.status ?? 200,
    title,
    main: h('article', { class: 'narrow card' }, [
      h('h1', null, title),
      h(Alert, { message: problem?.message ?? null }),
      contents,
    ]),
  }
}
