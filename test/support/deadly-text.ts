/** A value with this text ends every worker that reads it (dying-worker.ts). */
export const deadlyText = 'a value that ends every worker'
