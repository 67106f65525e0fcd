/** The part of a declaration that tools share which read documents, issues or cards of the organization. */
export const readsInternal = {
  sideEffect: 'read',
  outputLabels: ['internal'],
  categories: [],
  risk: 'medium',
  constraints: { max_response_size_kb: {} },
  repeat: 'free',
  reversible: 'yes',
} as const
