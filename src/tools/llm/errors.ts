import type { ReadErrors } from '../kit/read-errors.ts'

const noCredit = [
  'llm_no_credit',
  'the account of the language model has no credit left: add credit there, or connect another account',
] as const
const tooLong = [
  'llm_too_long',
  'the text is longer than the model takes: shorten `prompt` or `system`',
] as const

/**
 * The error table of `llm_generate`. It covers Anthropic, Ollama, OpenAI, and other servers that speak OpenAI's
 * protocol.
 */
export const llmErrors: ReadErrors = {
  prefix: 'llm',
  title: 'the service of the language model',
  address: '`provider` and `base_url` of the connection',
  refusals: {
    400: [
      'llm_refused',
      'the language model does not take this request: shorten the text, lower `max_tokens`, or use another model',
    ],
    402: noCredit,
    403: ['llm_forbidden', 'the account may not use this model: give it the right, or use another model'],
    404: [
      'llm_not_found',
      'the service has no such model, or is not at this address: check `model`, and `base_url` of the connection',
    ],
    413: tooLong,
    422: ['llm_refused', 'the language model does not take these values: check `model` and `max_tokens`'],
  },
  byWords: [
    { status: 400, words: /credit balance is too low/i, means: noCredit },
    { status: 400, words: /context_length_exceeded|prompt is too long/i, means: tooLong },
    { status: 429, words: /insufficient_quota/, means: noCredit },
  ],
}
