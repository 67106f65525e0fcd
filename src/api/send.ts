import type { Response } from 'express'
import type { Answer } from './route.ts'

/** Sends JSON text as it stands, so that a replayed answer is the first one byte for byte. */
export function sendAnswer(response: Response, answer: Answer & { readonly text?: string | null }): void {
  const text = answer.text === undefined ? jsonText(answer.body) : answer.text
  response.status(answer.status)
  if (text === null) {
    response.end()
    return
  }
  response.setHeader('Content-Type', 'application/json; charset=utf-8')
  response.end(text)
}

export function jsonText(body: unknown): string | null {
  return body === undefined ? null : JSON.stringify(body)
}
