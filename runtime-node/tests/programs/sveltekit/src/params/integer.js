export const match = (param) => /^\d+$/.test(param);
