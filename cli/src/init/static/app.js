const response = await fetch("/api/time");
const { time } = await response.json();
document.getElementById("time").textContent = time;
